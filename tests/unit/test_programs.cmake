# The hooks of memory, modules and contexts, on a driver of the test's own.
target_sources(${RATION_TEST} PRIVATE $<TARGET_OBJECTS:unit_model_driver>)
ration_take(${RATION_TEST} hook/cuda_mem hook/cuda_vmm hook/cuda_module hook/cuda_ctx hook/making hook/movable
  hook/suspend hook/signals hook/peer hook/uses hook/uses_params hook/uses_sample hook/ipc_ask hook/ipc_export hook/ipc_import
  hook/ipc_socket hook/thread hook/own_row hook/loading hook/code hook/overhead hook/system_calls hook/primary hook/room
  hook/enter hook/again hook/event_point hook/metering hook/work hook/collective hook/together hook/first_launch drv/gpu_cuda drv/gpu_event drv/gpu_object drv/gpu_vmm drv/gpu_bo
  drv/gpu_copy drv/fence_context drv/gpu_fence drv/gpu_move drv/gpu_probe drv/gpu_remap drv/gpu_still drv/gpu_store
  drv/epoch drv/capture drv/gpu_heap drv/gpu_pool drv/gpu_tiles drv/relaxed drv/status drv/visit)
