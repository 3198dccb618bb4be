/* Takes device memory piece by piece until it is refused, and says how much it got. See `help`. */
#include <getopt.h>
#include <unistd.h>

#include "options.h"

static const char help[] =
	"Usage: hog [--piece SIZE] [--max SIZE] [--kind alloc|pitch|managed|vmm] [--device N]\n"
	"           [--hold SECONDS]\n"
	"Takes device memory in pieces (64m) until it is refused or --max is reached, says how much\n"
	"it got, and holds it for some seconds.\n";

enum kind { KIND_ALLOC, KIND_PITCH, KIND_MANAGED, KIND_VMM };

struct hog {
	enum kind kind;
	int device;
	uint64_t piece_bytes, max_bytes;
	unsigned hold_s;
};

/* Memory behind a reserved address; nothing is left over when a step fails. */
static CUresult take_vmm(const struct hog *hog, CUdeviceptr *out_address)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = hog->device },
	};
	CUmemAccessDesc access = { prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	size_t unit_bytes, bytes;
	CUresult res;

	CHECK(cuMemGetAllocationGranularity(&unit_bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	bytes = (hog->piece_bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
	CHECK(cuMemAddressReserve(out_address, bytes, 0, 0, 0));
	res = cuMemCreate(&handle, bytes, &prop, 0);
	if (res == CUDA_SUCCESS) {
		res = cuMemMap(*out_address, bytes, 0, handle, 0);
		if (res == CUDA_SUCCESS) {
			res = cuMemSetAccess(*out_address, bytes, &access, 1);
			if (res != CUDA_SUCCESS)
				cuMemUnmap(*out_address, bytes);
		}
		cuMemRelease(handle);
	}
	if (res != CUDA_SUCCESS)
		cuMemAddressFree(*out_address, bytes);
	return res;
}

static CUresult take(const struct hog *hog, CUdeviceptr *out_address)
{
	size_t pitch_bytes;

	switch (hog->kind) {
	case KIND_PITCH:
		return cuMemAllocPitch_v2(out_address, &pitch_bytes, 65536,
					  (hog->piece_bytes + 65535) / 65536, 4);
	case KIND_MANAGED:
		return cuMemAllocManaged(out_address, hog->piece_bytes, CU_MEM_ATTACH_GLOBAL);
	case KIND_VMM:
		return take_vmm(hog, out_address);
	default:
		return cuMemAlloc_v2(out_address, hog->piece_bytes);
	}
}

static enum kind parse_kind(const char *text)
{
	static const char *const names[] = { "alloc", "pitch", "managed", "vmm" };

	for (int i = 0; i < 4; i++)
		if (strcmp(text, names[i]) == 0)
			return (enum kind)i;
	options_refuse("--kind", text, "alloc, pitch, managed or vmm");
	return KIND_ALLOC;
}

static struct hog parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "piece", required_argument, NULL, 'p' },
		{ "max", required_argument, NULL, 'm' },
		{ "kind", required_argument, NULL, 'k' },
		{ "device", required_argument, NULL, 'd' },
		{ "hold", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct hog hog = { KIND_ALLOC, 0, 64 * MIB, UINT64_MAX, 0 };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'p':
			hog.piece_bytes = options_size("--piece", optarg);
			break;
		case 'm':
			hog.max_bytes = options_size("--max", optarg);
			break;
		case 'k':
			hog.kind = parse_kind(optarg);
			break;
		case 'd':
			hog.device = (int)options_number("--device", optarg, 0, 255);
			break;
		case 's':
			hog.hold_s = (unsigned)options_number("--hold", optarg, 0, 86400);
			break;
		case 'h':
			options_help(help);
			break;
		default:
			exit(2);
		}
	}
	options_end(argc, argv, optind);
	return hog;
}

int main(int argc, char **argv)
{
	struct hog hog = parse(argc, argv);
	size_t free_bytes, total_bytes;
	uint64_t got_bytes = 0;
	CUresult res = CUDA_SUCCESS;
	unsigned pieces = 0;
	CUdevice dev;
	CUcontext ctx;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, hog.device));
	CHECK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CHECK(cuCtxSetCurrent(ctx));
	while (got_bytes < hog.max_bytes) {
		CUdeviceptr address;

		res = take(&hog, &address);
		if (res != CUDA_SUCCESS)
			break;
		got_bytes += hog.piece_bytes;
		pieces++;
		printf("%llu MiB\n", (unsigned long long)(got_bytes / MIB));
	}
	CHECK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	printf("got %llu MiB in %u pieces, then %s; cuMemGetInfo: total %zu MiB, free %zu MiB\n",
	       (unsigned long long)(got_bytes / MIB), pieces,
	       res == CUDA_SUCCESS ? "stopped" : options_error(res), total_bytes / MIB,
	       free_bytes / MIB);
	fflush(stdout);
	sleep(hog.hold_s);
	return 0;
}
