/*
 * Modules that are no text: what they take of the device is reserved before they are loaded.
 */
#include "client_take.h"

#include "../unit/image_build.h"

/* Machine code with variables of so many bytes and code of others. */
static struct image_build elf_of(uint64_t variable_bytes, uint64_t code_bytes)
{
	const struct image_section sections[] = { { ".text.k", code_bytes, 0 },
						  { ".nv.global", variable_bytes, 1 } };

	return image_build_elf(sections, 2);
}

/* As that in a fat binary, beside other architectures' that are larger. */
static struct image_build fatbin_of(const struct image_build *elf, int is_packed)
{
	struct image_build b = image_build_fatbin(), other = elf_of(UINT64_C(1) << 40, 1000);
	struct image_build packed = image_build_lz4(elf->at, elf->bytes);

	image_build_member(&b, IMAGE_ELF, 70, &other, 0, 0);
	image_build_member(&b, IMAGE_ELF, 90, is_packed ? &packed : elf, is_packed ? elf->bytes : 0,
			   is_packed ? IMAGE_PACKED : 0);
	free(other.at);
	free(packed.at);
	return b;
}

static const char *write_file(const struct image_build *b)
{
	static char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s.image", getenv("RATION_REGION"));
	f = fopen(path, "w");
	CHECK(f && fwrite(b->at, 1, b->bytes, f) == b->bytes && fclose(f) == 0);
	return path;
}

/* Brings what takes so many bytes to the context, in the form and by the call that `how` names. */
static CUresult bring(const char *how, uint64_t variable_bytes, uint64_t code_bytes)
{
	CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
	struct image_build elf = elf_of(variable_bytes, code_bytes), b;
	void *yes = (void *)1;
	CUlibrary library;
	CUmodule module;
	CUresult res;

	b = strstr(how, "fatbin") ? fatbin_of(&elf, strstr(how, "packed") != NULL) : elf;
	if (strstr(how, "library-file"))
		res = cuLibraryLoadFromFile(&library, write_file(&b), NULL, NULL, 0, NULL, NULL, 0);
	else if (strstr(how, "library-preserved"))
		res = cuLibraryLoadData(&library, b.at, NULL, NULL, 0, &preserved, &yes, 1);
	else if (strstr(how, "library"))
		res = cuLibraryLoadData(&library, b.at, NULL, NULL, 0, NULL, NULL, 0);
	else if (strstr(how, "file"))
		return cuModuleLoad(&module, write_file(&b));
	else
		return cuModuleLoadData(&module, b.at);
	return res == CUDA_SUCCESS ? cuLibraryGetModule(&module, library) : res;
}

/* load HOW: one that fits, then one that does not, by its variables or its code. */
static void load(int argc, char **argv)
{
	uint64_t start;

	CHECK(argc == 1);
	client_start();
	OK(bring(argv[0], 40 * MIB, 100));
	start = client_charged(0);
	CHECK(start >= CLIENT_CONTEXT_BYTES + 40 * MIB);
	IS(bring(argv[0], 256 * MIB, 100), CUDA_ERROR_OUT_OF_MEMORY);
	if (getenv("CUDA_MODULE_LOADING"))
		IS(bring(argv[0], 0, 90 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(client_charged(0), start);
	OK(bring(argv[0], 1, 1));
	client_pause("loaded");
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = { { "load", load }, { 0 } };

	return client_main(argc, argv, cases);
}
