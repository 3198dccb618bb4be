/*
 * The CUDA driver API as Ration uses it: modules, libraries, kernels, linking, occupancy, launches.
 *
 * Only what crosses the ABI is here: names, types, values. tests/lint/check-abi compares them with
 * NVIDIA's headers of several releases.
 */
#pragma once

#include "abi/cuda_struct.h"

/* Modules. */
CUresult cuModuleEnumerateFunctions(CUfunction *out_functions, unsigned int count, CUmodule mod);
CUresult cuModuleGetFunction(CUfunction *out_func, CUmodule module, const char *name);
CUresult cuModuleGetFunctionCount(unsigned int *out_count, CUmodule mod);
CUresult cuModuleGetGlobal(CUdeviceptr_v1 *out_addr, unsigned int *out_bytes, CUmodule module,
			   const char *name);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *out_addr, size_t *out_bytes, CUmodule module,
			      const char *name);
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *out_mode);
CUresult cuModuleLoad(CUmodule *out_module, const char *path);
CUresult cuModuleLoadData(CUmodule *out_module, const void *image);
CUresult cuModuleLoadDataEx(CUmodule *out_module, const void *image, unsigned int count,
			    CUjit_option *options, void **values);
CUresult cuModuleLoadFatBinary(CUmodule *out_module, const void *image);
CUresult cuModuleUnload(CUmodule module);

/* Libraries and their kernels. */
CUresult cuKernelGetAttribute(int *out_value, CUfunction_attribute attr, CUkernel kernel,
			      CUdevice dev);
CUresult cuKernelGetFunction(CUfunction *out_func, CUkernel kernel);
CUresult cuKernelGetLibrary(CUlibrary *out_library, CUkernel kernel);
CUresult cuKernelGetName(const char **out_name, CUkernel func);
CUresult cuKernelGetParamCount(CUkernel kernel, size_t *out_param_count);
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t param_index, size_t *out_param_offset,
			      size_t *out_param_size);
CUresult cuKernelSetAttribute(CUfunction_attribute attr, int value, CUkernel kernel, CUdevice dev);
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev);
CUresult cuLibraryEnumerateKernels(CUkernel *out_kernels, unsigned int count, CUlibrary library);
CUresult cuLibraryGetGlobal(CUdeviceptr *out_addr, size_t *out_bytes, CUlibrary library,
			    const char *name);
CUresult cuLibraryGetKernel(CUkernel *out_kernel, CUlibrary library, const char *name);
CUresult cuLibraryGetKernelCount(unsigned int *out_count, CUlibrary library);
CUresult cuLibraryGetManaged(CUdeviceptr *out_addr, size_t *out_bytes, CUlibrary library,
			     const char *name);
CUresult cuLibraryGetModule(CUmodule *out_module, CUlibrary library);
CUresult cuLibraryGetUnifiedFunction(void **out_fptr, CUlibrary library, const char *symbol);
CUresult cuLibraryLoadData(CUlibrary *out_library, const void *code, CUjit_option *jit_options,
			   void **jit_values, unsigned int jit_count,
			   CUlibraryOption *library_options, void **library_values,
			   unsigned int library_count);
CUresult cuLibraryLoadFromFile(CUlibrary *out_library, const char *path, CUjit_option *jit_options,
			       void **jit_values, unsigned int jit_count,
			       CUlibraryOption *library_options, void **library_values,
			       unsigned int library_count);
CUresult cuLibraryUnload(CUlibrary library);

/* Functions. */
CUresult cuFuncGetAttribute(int *out_value, CUfunction_attribute attr, CUfunction func);
CUresult cuFuncGetModule(CUmodule *out_module, CUfunction func);
CUresult cuFuncGetName(const char **out_name, CUfunction func);
CUresult cuFuncGetParamCount(CUfunction func, size_t *out_param_count);
CUresult cuFuncGetParamInfo(CUfunction func, size_t param_index, size_t *out_param_offset,
			    size_t *out_param_size);
CUresult cuFuncIsLoaded(CUfunctionLoadingState *out_state, CUfunction func);
CUresult cuFuncLoad(CUfunction func);
CUresult cuFuncSetAttribute(CUfunction func, CUfunction_attribute attr, int value);
CUresult cuFuncSetBlockShape(CUfunction func, int x, int y, int z);
CUresult cuFuncSetCacheConfig(CUfunction func, CUfunc_cache config);
CUresult cuFuncSetSharedMemConfig(CUfunction func, CUsharedconfig config);
CUresult cuFuncSetSharedSize(CUfunction func, unsigned int bytes);

/* Linker. */
CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t bytes,
		       const char *name, unsigned int count, CUjit_option *options, void **values);
__typeof__(cuLinkAddData) cuLinkAddData_v2;
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned int count,
		       CUjit_option *options, void **values);
__typeof__(cuLinkAddFile) cuLinkAddFile_v2;
CUresult cuLinkComplete(CUlinkState state, void **out_cubin, size_t *out_bytes);
CUresult cuLinkCreate(unsigned int count, CUjit_option *options, void **values,
		      CUlinkState *out_state);
__typeof__(cuLinkCreate) cuLinkCreate_v2;
CUresult cuLinkDestroy(CUlinkState state);

/* Occupancy. */
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *out_shared_bytes, CUfunction func,
						 int blocks, int block);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out_blocks, CUfunction func, int block,
						     size_t shared_bytes);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *out_blocks, CUfunction func,
							      int block, size_t shared_bytes,
							      unsigned int flags);
CUresult cuOccupancyMaxActiveClusters(int *out_clusters, CUfunction func,
				      const CUlaunchConfig *config);
CUresult cuOccupancyMaxPotentialBlockSize(int *out_grid, int *out_block, CUfunction func,
					  CUoccupancyB2DSize shared_for_block, size_t shared_bytes,
					  int block_limit);
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *out_grid, int *out_block, CUfunction func,
						   CUoccupancyB2DSize shared_for_block,
						   size_t shared_bytes, int block_limit,
						   unsigned int flags);
CUresult cuOccupancyMaxPotentialClusterSize(int *out_cluster, CUfunction func,
					    const CUlaunchConfig *config);

/* Launches. */
CUresult cuLaunchCooperativeKernel(CUfunction func, unsigned int grid_x, unsigned int grid_y,
				   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
				   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
				   void **params);
__typeof__(cuLaunchCooperativeKernel) cuLaunchCooperativeKernel_ptsz;
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches, unsigned int count,
					      unsigned int flags);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *data);
__typeof__(cuLaunchHostFunc) cuLaunchHostFunc_ptsz;
CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn fn, void *data, unsigned int sync_mode);
__typeof__(cuLaunchHostFunc_v2) cuLaunchHostFunc_v2_ptsz;
CUresult cuLaunchKernel(CUfunction func, unsigned int grid_x, unsigned int grid_y,
			unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			unsigned int block_z, unsigned int shared_bytes, CUstream stream,
			void **params, void **extra);
__typeof__(cuLaunchKernel) cuLaunchKernel_ptsz;
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction func, void **params,
			  void **extra);
__typeof__(cuLaunchKernelEx) cuLaunchKernelEx_ptsz;

/* Launches of CUDA before 4.0. */
CUresult cuLaunch(CUfunction func);
CUresult cuLaunchGrid(CUfunction func, int grid_width, int grid_height);
CUresult cuLaunchGridAsync(CUfunction func, int grid_width, int grid_height, CUstream stream);
CUresult cuParamSetSize(CUfunction func, unsigned int bytes);
CUresult cuParamSetf(CUfunction func, int offset, float value);
CUresult cuParamSeti(CUfunction func, int offset, unsigned int value);
CUresult cuParamSetv(CUfunction func, int offset, void *value, unsigned int bytes);
