#include "hook/work.h"
void work_begin(struct work *w, struct work_call call)
{
	w->call = call;
}
void work_end(struct work *w, CUresult res)
{
	(void)w;
	(void)res;
}
