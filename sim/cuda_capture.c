#include "cuda_capture.h"
#include "cuda_stream.h"
CUresult cuda_capture_add(struct CUstream_st *stream, struct cuda_work *work)
{
	(void)stream;
	(void)work;
	return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuda_capture_record(struct CUstream_st *stream, struct CUevent_st *event)
{
	(void)stream;
	(void)event;
	return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuda_capture_join(struct CUstream_st *stream, struct CUevent_st *event)
{
	(void)stream;
	(void)event;
	return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuda_capture_check_legacy(struct CUstream_st *stream)
{
	(void)stream;
	return CUDA_SUCCESS;
}
CUresult cuda_capture_check_unsafe(struct CUctx_st *ctx)
{
	(void)ctx;
	return CUDA_SUCCESS;
}
CUresult cuda_capture_check_context(struct CUctx_st *ctx)
{
	(void)ctx;
	return CUDA_SUCCESS;
}
CUresult cuda_capture_check_stream(struct CUstream_st *stream)
{
	(void)stream;
	return CUDA_SUCCESS;
}
void cuda_capture_abandon(struct CUstream_st *stream)
{
	(void)stream;
}
CUresult cuda_capture_isolate(struct CUstream_st *stream, struct CUevent_st *event)
{
	(void)stream;
	(void)event;
	return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuda_capture_check_sync(struct CUstream_st *stream)
{
	(void)stream;
	return CUDA_SUCCESS;
}
