#include "model_driver.h"

#include "drv/gpu_cuda.h"
#include "drv/sample_nvml.h"
#include "hook/enter.h"
#include "hook/worker.h"
#include "member.h"

#include <pthread.h>

enum {
	UNIT_BYTES = 65536, /* the grain of linear memory */
	BLOCK_UNITS = 32,
	BLOCKS = 256,
	PIECES = 4096,
	HANDLES = 256,
	MAPS = 1024,
	OBJECTS = 64,
};

#define LINEAR_BASE UINT64_C(0x7f1000000000)
#define MANAGED_BASE UINT64_C(0x7f8000000000)

/* A linear or managed allocation; addr 0 = free row. */
struct piece {
	uint64_t addr;
	uint64_t units;
	CUcontext ctx;
	bool is_managed;
};

/* Physical memory; the handle's value is its row's number + 1. */
struct memory {
	uint64_t bytes; /* 0 = free row */
	int refs;
	int maps;
	int imports;       /* rows of imports of it */
	struct memory *of; /* of an import: what it shares */
	bool is_foreign;
};

struct map {
	uint64_t addr; /* 0 = free row */
	uint64_t bytes;
	int memory;
};

/* A context or a module; its handle is its address. */
struct object {
	uint64_t bytes; /* 0 = free row */
	CUcontext ctx;  /* of a module */
	int users;      /* of a context */
};

static struct {
	pthread_mutex_t mutex;
	/* mutex */
	uint64_t card_bytes;
	unsigned char units[BLOCKS * BLOCK_UNITS]; /* 1 = in use */
	uint64_t managed_next;
	struct piece pieces[PIECES];
	struct memory memories[HANDLES];
	struct map maps[MAPS];
	struct object contexts[OBJECTS], modules[OBJECTS];
	int primary_refs;
	CUcontext primary;
	struct model_imports imports;
	int answer; /* of the card, see model_answer() */
	struct model_books books;
} model;

static __thread bool fails_next;
static __thread void (*after_next)(void), (*after)(void);
static __thread CUcontext current;

struct real real;

static void lock(void)
{
	pthread_mutex_lock(&model.mutex);
}

static CUresult unlock(CUresult res)
{
	uint64_t held = model.books.blocks_bytes + model.books.handles_bytes +
			model.books.managed_bytes;
	void (*run)(void) = after;

	if (held > model.books.most_bytes)
		model.books.most_bytes = held;
	pthread_mutex_unlock(&model.mutex);
	if (run) {
		after = NULL;
		run();
	}
	return res;
}

void model_after_next(void (*fn)(void))
{
	after_next = fn;
}

void model_fail_next(void)
{
	fails_next = true;
}

static bool fails(void)
{
	bool does = fails_next;

	fails_next = false;
	after = after_next;
	after_next = NULL;
	return does;
}

struct model_books model_look(void)
{
	struct model_books books;

	lock();
	books = model.books;
	unlock(CUDA_SUCCESS);
	return books;
}

static bool is_block_used(uint64_t block)
{
	for (uint64_t u = block * BLOCK_UNITS; u < (block + 1) * BLOCK_UNITS; u++)
		if (model.units[u])
			return true;
	return false;
}

static bool is_run_free(uint64_t at, uint64_t units)
{
	if (at + units > BLOCKS * BLOCK_UNITS)
		return false;
	for (uint64_t u = at; u < at + units; u++)
		if (model.units[u])
			return false;
	return true;
}

/* Bytes of the blocks that a run would newly open, or that its end would close. */
static uint64_t blocks_of_its_own(uint64_t at, uint64_t units)
{
	uint64_t bytes = 0;

	for (uint64_t b = at / BLOCK_UNITS; b <= (at + units - 1) / BLOCK_UNITS; b++)
		bytes += is_block_used(b) ? 0 : MODEL_BLOCK_BYTES;
	return bytes;
}

static bool place_in(uint64_t block, uint64_t units, uint64_t *out_at)
{
	for (uint64_t at = block * BLOCK_UNITS; at + units <= (block + 1) * BLOCK_UNITS; at++)
		if (is_run_free(at, units))
			return *out_at = at, true;
	return false;
}

/* Small requests go where there is room in an open block; larger ones begin a block. */
static bool place(uint64_t units, uint64_t *out_at)
{
	for (uint64_t b = 0; units <= BLOCK_UNITS / 2 && b < BLOCKS; b++)
		if (is_block_used(b) && place_in(b, units, out_at))
			return true;
	for (uint64_t at = 0; at < BLOCKS * BLOCK_UNITS; at += BLOCK_UNITS)
		if (is_run_free(at, units))
			return *out_at = at, true;
	return false;
}

static uint64_t on_card(void)
{
	return model.books.blocks_bytes + model.books.handles_bytes + model.books.overhead_bytes;
}

static struct piece *new_piece(void)
{
	for (int i = 0; i < PIECES; i++)
		if (!model.pieces[i].addr)
			return &model.pieces[i];
	return NULL;
}

static CUresult give_linear(CUdeviceptr *out_addr, uint64_t bytes)
{
	uint64_t units = (bytes + UNIT_BYTES - 1) / UNIT_BYTES, at, own;
	struct piece *p = new_piece();

	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!units || units > BLOCKS * BLOCK_UNITS)
		return units ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	if (!p || !place(units, &at))
		return CUDA_ERROR_OUT_OF_MEMORY;
	own = blocks_of_its_own(at, units);
	if (on_card() + own > model.card_bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	model.books.blocks_bytes += own;
	memset(&model.units[at], 1, units);
	*p = (struct piece){ LINEAR_BASE + at * UNIT_BYTES, units, current, false };
	*out_addr = p->addr;
	return CUDA_SUCCESS;
}

static CUresult model_alloc(CUdeviceptr *out_addr, size_t bytes)
{
	lock();
	return unlock(fails() ? CUDA_ERROR_UNKNOWN : give_linear(out_addr, bytes));
}

static CUresult model_alloc_pitch(CUdeviceptr *out_addr, size_t *out_pitch, size_t width,
				  size_t height, unsigned int element)
{
	size_t pitch = (width + 511) / 512 * 512;
	CUresult res;

	(void)element;
	lock();
	res = fails() ? CUDA_ERROR_UNKNOWN : give_linear(out_addr, pitch * height);
	if (res == CUDA_SUCCESS)
		*out_pitch = pitch;
	return unlock(res);
}

static CUresult model_alloc_managed(CUdeviceptr *out_addr, size_t bytes, unsigned int flags)
{
	struct piece *p;

	(void)flags;
	lock();
	p = new_piece();
	if (fails() || !current || !p)
		return unlock(CUDA_ERROR_UNKNOWN);
	*p = (struct piece){ model.managed_next, (bytes + UNIT_BYTES - 1) / UNIT_BYTES, current,
			     true };
	model.managed_next += p->units * UNIT_BYTES;
	model.books.managed_bytes += p->units * UNIT_BYTES;
	*out_addr = p->addr;
	return unlock(CUDA_SUCCESS);
}

static void end_piece(struct piece *p)
{
	uint64_t at = (p->addr - LINEAR_BASE) / UNIT_BYTES;

	p->addr = 0;
	if (p->is_managed) {
		model.books.managed_bytes -= p->units * UNIT_BYTES;
		return;
	}
	memset(&model.units[at], 0, p->units);
	model.books.blocks_bytes -= blocks_of_its_own(at, p->units);
}

static CUresult free_piece(uint64_t addr)
{
	for (int i = 0; addr && i < PIECES; i++) {
		if (model.pieces[i].addr != addr)
			continue;
		end_piece(&model.pieces[i]);
		return CUDA_SUCCESS;
	}
	return addr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult model_free(CUdeviceptr addr)
{
	lock();
	return unlock(fails() ? CUDA_ERROR_UNKNOWN : free_piece(addr));
}

static CUresult model_range(CUdeviceptr *out_base, size_t *out_bytes, CUdeviceptr addr)
{
	lock();
	for (int i = 0; i < PIECES; i++) {
		struct piece *p = &model.pieces[i];

		if (!p->addr || addr < p->addr || addr >= p->addr + p->units * UNIT_BYTES)
			continue;
		*out_base = p->addr;
		CHECK(!out_bytes);
		return unlock(CUDA_SUCCESS);
	}
	return unlock(CUDA_ERROR_NOT_FOUND);
}

void model_free_unseen(uint64_t addr)
{
	lock();
	CHECK(free_piece(addr) == CUDA_SUCCESS);
	unlock(CUDA_SUCCESS);
}

static CUresult model_create(CUmemGenericAllocationHandle *out_handle, size_t bytes,
			     const CUmemAllocationProp *prop, unsigned long long flags)
{
	(void)prop;
	(void)flags;
	lock();
	if (fails() || on_card() + bytes > model.card_bytes)
		return unlock(CUDA_ERROR_OUT_OF_MEMORY);
	for (int i = 0; i < HANDLES; i++) {
		if (model.memories[i].bytes)
			continue;
		model.memories[i] = (struct memory){ .bytes = bytes, .refs = 1 };
		model.books.handles_bytes += bytes;
		*out_handle = (unsigned)i + 1;
		return unlock(CUDA_SUCCESS);
	}
	return unlock(CUDA_ERROR_OUT_OF_MEMORY);
}

static struct memory *memory_of(CUmemGenericAllocationHandle handle)
{
	return handle >= 1 && handle <= HANDLES && model.memories[handle - 1].refs ?
		       &model.memories[handle - 1] :
		       NULL;
}

static void settle(struct memory *m)
{
	struct memory *of = m->of;

	if (m->refs || m->maps || m->imports)
		return;
	if (of) {
		of->imports--;
		settle(of);
	} else {
		model.books.handles_bytes -= m->is_foreign ? model.imports.foreign_bytes : m->bytes;
	}
	m->bytes = 0;
}

static CUresult model_release(CUmemGenericAllocationHandle handle)
{
	struct memory *m;

	lock();
	m = memory_of(handle);
	if (fails() || !m)
		return unlock(CUDA_ERROR_INVALID_VALUE);
	m->refs--;
	settle(m);
	return unlock(CUDA_SUCCESS);
}

static CUresult model_map(CUdeviceptr addr, size_t bytes, size_t offset,
			  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct memory *m;
	struct map *row = NULL;

	(void)flags;
	lock();
	m = memory_of(handle);
	for (int i = 0; i < MAPS; i++) {
		if (!model.maps[i].addr)
			row = &model.maps[i];
		else if (model.maps[i].addr < addr + bytes &&
			 addr < model.maps[i].addr + model.maps[i].bytes)
			return unlock(CUDA_ERROR_INVALID_VALUE);
	}
	if (fails() || !m || !row || bytes != m->bytes || offset)
		return unlock(CUDA_ERROR_INVALID_VALUE);
	*row = (struct map){ addr, bytes, (int)handle - 1 };
	m->maps++;
	return unlock(CUDA_SUCCESS);
}

static CUresult model_unmap(CUdeviceptr addr, size_t bytes)
{
	uint64_t covered = 0;

	lock();
	for (int i = 0; i < MAPS; i++)
		if (model.maps[i].addr >= addr &&
		    model.maps[i].addr + model.maps[i].bytes <= addr + bytes)
			covered += model.maps[i].bytes;
	/* Whole mappings without a gap, as the driver wants it. */
	if (fails() || covered != bytes)
		return unlock(CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < MAPS; i++) {
		struct map *row = &model.maps[i];

		if (row->addr < addr || row->addr >= addr + bytes)
			continue;
		row->addr = 0;
		model.memories[row->memory].maps--;
		settle(&model.memories[row->memory]);
	}
	return unlock(CUDA_SUCCESS);
}

static CUresult model_retain(CUmemGenericAllocationHandle *out_handle, void *at)
{
	uint64_t addr = (uint64_t)(uintptr_t)at;
	bool does_fail;

	lock();
	does_fail = fails();
	for (int i = 0; i < MAPS; i++) {
		struct map *row = &model.maps[i];

		if (!row->addr || addr < row->addr || addr >= row->addr + row->bytes)
			continue;
		if (does_fail)
			break;
		model.memories[row->memory].refs++;
		*out_handle = (unsigned)row->memory + 1;
		return unlock(CUDA_SUCCESS);
	}
	return unlock(CUDA_ERROR_INVALID_VALUE);
}

static CUresult import_own(CUmemGenericAllocationHandle *out_handle, struct memory *m,
			   CUmemGenericAllocationHandle own)
{
	if (!m->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (model.imports.have_same_value) {
		m->refs++;
		*out_handle = own;
		return CUDA_SUCCESS;
	}
	if (m->of)
		m = m->of;
	for (int i = 0; i < HANDLES; i++) {
		if (model.memories[i].bytes)
			continue;
		model.memories[i] = (struct memory){ .bytes = m->bytes, .refs = 1, .of = m };
		m->imports++;
		*out_handle = (unsigned)i + 1;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult import_foreign(CUmemGenericAllocationHandle *out_handle)
{
	for (int i = 0; i < HANDLES; i++) {
		if (model.memories[i].bytes)
			continue;
		model.memories[i] =
			(struct memory){ .bytes = UNIT_BYTES, .refs = 1, .is_foreign = true };
		model.books.handles_bytes += model.imports.foreign_bytes;
		*out_handle = (unsigned)i + 1;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult model_import(CUmemGenericAllocationHandle *out_handle, void *shareable,
			     CUmemAllocationHandleType type)
{
	uint64_t own = (uint64_t)(uintptr_t)shareable;

	(void)type;
	lock();
	if (fails())
		return unlock(CUDA_ERROR_INVALID_VALUE);
	return unlock(own ? import_own(out_handle, &model.memories[own - 1], own) :
			    import_foreign(out_handle));
}

static CUresult model_properties(CUmemAllocationProp *out_prop, CUmemGenericAllocationHandle handle)
{
	*out_prop = (CUmemAllocationProp){ .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	return handle ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void model_set_imports(struct model_imports how)
{
	lock();
	model.imports = how;
	unlock(CUDA_SUCCESS);
}

static struct object *new_object(struct object *rows, uint64_t bytes)
{
	if (on_card() + bytes > model.card_bytes)
		return NULL;
	for (int i = 0; i < OBJECTS; i++) {
		if (rows[i].bytes)
			continue;
		rows[i].bytes = bytes;
		rows[i].ctx = current;
		model.books.overhead_bytes += bytes;
		return &rows[i];
	}
	return NULL;
}

static void end_object(struct object *o)
{
	model.books.overhead_bytes -= o->bytes;
	o->bytes = 0;
}

/* A module of 64 KiB to 2 MiB, as its image says. */
static CUresult model_load(CUmodule *out_module, const void *image)
{
	struct object *o;

	lock();
	if (fails() || !current)
		return unlock(CUDA_ERROR_INVALID_CONTEXT);
	o = new_object(model.modules, UNIT_BYTES * (uint64_t) * (const unsigned char *)image);
	if (o)
		*out_module = (CUmodule)(void *)o;
	return unlock(o ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult model_unload(CUmodule module)
{
	struct object *o = (struct object *)(void *)module;

	lock();
	if (fails() || !o->bytes)
		return unlock(CUDA_ERROR_INVALID_HANDLE);
	end_object(o);
	return unlock(CUDA_SUCCESS);
}

static CUcontext new_context(void)
{
	struct object *o = new_object(model.contexts, MODEL_CONTEXT_BYTES);

	if (o)
		o->users = 1;
	model.books.contexts_made += o != NULL;
	return (CUcontext)(void *)o;
}

static void end_context(CUcontext ctx)
{
	for (int i = 0; i < PIECES; i++)
		if (model.pieces[i].addr && model.pieces[i].ctx == ctx)
			end_piece(&model.pieces[i]);
	for (int i = 0; i < OBJECTS; i++)
		if (model.modules[i].bytes && model.modules[i].ctx == ctx)
			end_object(&model.modules[i]);
	end_object((struct object *)(void *)ctx);
}

static CUresult model_ctx_create(CUcontext *out_ctx, unsigned int flags, CUdevice dev)
{
	CUcontext ctx;

	(void)flags;
	(void)dev;
	lock();
	ctx = fails() ? NULL : new_context();
	if (ctx)
		*out_ctx = current = ctx;
	return unlock(ctx ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult model_ctx_destroy(CUcontext ctx)
{
	lock();
	if (fails())
		return unlock(CUDA_ERROR_INVALID_CONTEXT);
	end_context(ctx);
	if (current == ctx)
		current = NULL;
	return unlock(CUDA_SUCCESS);
}

static CUresult model_ctx_attach(CUcontext *out_ctx, unsigned int flags)
{
	(void)flags;
	lock();
	if (fails() || !current)
		return unlock(CUDA_ERROR_INVALID_CONTEXT);
	((struct object *)(void *)current)->users++;
	*out_ctx = current;
	return unlock(CUDA_SUCCESS);
}

static CUresult model_ctx_detach(CUcontext ctx)
{
	lock();
	if (fails())
		return unlock(CUDA_ERROR_INVALID_CONTEXT);
	if (--((struct object *)(void *)ctx)->users == 0) {
		end_context(ctx);
		if (current == ctx)
			current = NULL;
	}
	return unlock(CUDA_SUCCESS);
}

void model_set_current(void *ctx)
{
	current = ctx;
}

static CUresult model_ctx_get(CUcontext *out_ctx)
{
	*out_ctx = current;
	return CUDA_SUCCESS;
}

static CUresult model_ctx_device(CUdevice *out_dev)
{
	*out_dev = 0;
	return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult model_retain_primary(CUcontext *out_ctx, CUdevice dev)
{
	(void)dev;
	lock();
	if (!model.primary_refs)
		model.primary = new_context();
	if (!model.primary)
		return unlock(CUDA_ERROR_OUT_OF_MEMORY);
	model.primary_refs++;
	*out_ctx = model.primary;
	return unlock(CUDA_SUCCESS);
}

static CUresult model_release_primary(CUdevice dev)
{
	(void)dev;
	lock();
	if (fails() || !model.primary_refs)
		return unlock(CUDA_ERROR_INVALID_CONTEXT);
	if (--model.primary_refs == 0)
		end_context(model.primary);
	return unlock(CUDA_SUCCESS);
}

static CUresult model_primary_state(CUdevice dev, unsigned int *out_flags, int *out_active)
{
	(void)dev;
	lock();
	*out_flags = 0;
	*out_active = model.primary_refs > 0;
	return unlock(CUDA_SUCCESS);
}

void model_start(uint64_t card_bytes)
{
	memset(&model, 0, sizeof(model));
	pthread_mutex_init(&model.mutex, NULL);
	model.card_bytes = card_bytes;
	model.managed_next = MANAGED_BASE;
	current = NULL;
	fails_next = false;
	real.cuMemAlloc_v2 = model_alloc;
	real.cuMemAllocPitch_v2 = model_alloc_pitch;
	real.cuMemAllocManaged = model_alloc_managed;
	real.cuMemFree_v2 = model_free;
	real.cuMemGetAddressRange_v2 = model_range;
	real.cuMemCreate = model_create;
	real.cuMemRelease = model_release;
	real.cuMemMap = model_map;
	real.cuMemUnmap = model_unmap;
	real.cuMemRetainAllocationHandle = model_retain;
	real.cuMemImportFromShareableHandle = model_import;
	real.cuMemGetAllocationPropertiesFromHandle = model_properties;
	real.cuModuleLoadData = model_load;
	real.cuModuleUnload = model_unload;
	real.cuCtxCreate_v2 = model_ctx_create;
	real.cuCtxDestroy_v2 = model_ctx_destroy;
	real.cuCtxAttach = model_ctx_attach;
	real.cuCtxDetach = model_ctx_detach;
	real.cuCtxGetCurrent = model_ctx_get;
	real.cuCtxGetDevice = model_ctx_device;
	real.cuDevicePrimaryCtxRetain = model_retain_primary;
	real.cuDevicePrimaryCtxRelease_v2 = model_release_primary;
	real.cuDevicePrimaryCtxGetState = model_primary_state;
}

/* What the hooks ask of drv and hook/init. */

bool real_find(enum real_lib lib)
{
	return lib == REAL_CUDA;
}

void *real_symbol(enum real_lib lib, const char *name)
{
	(void)lib;
	(void)name;
	return NULL;
}

bool sample_nvml_knows(const char *uuid)
{
	return strcmp(uuid, member_uuid(0)) == 0;
}

void sample_nvml_rest(bool is_wanted)
{
	(void)is_wanted;
}

unsigned sample_nvml_find_own(const char *uuid, const struct fingerprint *fingerprint)
{
	CHECK(strcmp(uuid, member_uuid(0)) == 0 && fingerprint->take && fingerprint->give);
	return 0;
}

int sample_nvml_process_bytes(const char *uuid, uint64_t *out_bytes)
{
	int error;

	CHECK(strcmp(uuid, member_uuid(0)) == 0);
	lock();
	*out_bytes = on_card();
	error = model.answer;
	unlock(CUDA_SUCCESS);
	return error;
}

void model_answer(int error)
{
	lock();
	model.answer = error;
	unlock(CUDA_SUCCESS);
}

static struct {
	struct member member;
	bool is_member;
} membership;

void model_join(const char *region, const char *limit)
{
	struct device_info info = { .physical_bytes = UINT64_C(16) << 30 };

	snprintf(info.uuid, sizeof(info.uuid), "%s", member_uuid(0));
	member_join(&membership.member, region, limit, 0, 1);
	CHECK(device_bind(&membership.member.region, &info, 1) == 0);
	charge_init(&gpu_cuda_ops);
	membership.is_member = true;
}

bool init_is_member(void)
{
	return membership.is_member;
}

enum init_state init_member(void)
{
	return membership.is_member ? INIT_MEMBER : INIT_FAILED;
}

int init_error(void)
{
	return -EAGAIN;
}

/* The tests look at the card themselves. */
void worker_start(void)
{
}
