/* Functions of the driver's own that images call. */
#include "core/image.h"
#include "fresh.h"
#include "image_build.h"

#define HEAD ".version 7.0\n.target sm_50\n.address_size 64\n"
#define ENTRY ".visible .entry k()\n{\n ret;\n}\n"
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static unsigned calls(const char *text)
{
	return image_read(text, 90).calls;
}

static void calls_of_text(void)
{
	CHECK_EQ(calls(HEAD ENTRY), 0);
	CHECK_EQ(calls(HEAD ".extern .shared .align 16 .b8 malloc[];\n" ENTRY), 0);
	CHECK_EQ(calls(HEAD ".extern .global .b8 vprintf[4];\n" ENTRY), 0);
	CHECK_EQ(calls(HEAD ".extern .func (.param .b32 r) vprintf (.param .b64 a);\n" ENTRY),
		 IMAGE_CALLS_PRINT);
	CHECK_EQ(calls(HEAD ".extern .func  (.param .b64 func_retval0) malloc\n(\n"
			    "\t.param .b64 malloc_param_0\n)\n;\n" ENTRY),
		 IMAGE_CALLS_HEAP);
	CHECK_EQ(calls(HEAD ".extern .func free(.param .b64 vprintf);\n" ENTRY), IMAGE_CALLS_HEAP);
	CHECK_EQ(calls(HEAD
		       ".extern .func __assertfail\n(.param .b64 a, .param .b64 malloc)\n;\n"
		       ".extern .func (.param .b32 r) cudaLaunchDeviceV2(.param .b64 a);\n" ENTRY),
		 IMAGE_CALLS_OTHER | IMAGE_CALLS_LAUNCH);
	/* Variables behind it are seen as before, and what has no end is nobody's. */
	CHECK_EQ(image_read(HEAD ".extern .func a();.global .b8 x[1000];" ENTRY, 90).variable_bytes,
		 1000);
	CHECK_EQ(calls(HEAD ".extern .func malloc"), IMAGE_CALLS_HEAP);
	CHECK_EQ(calls(HEAD ".extern"), 0);
	CHECK_EQ(calls(HEAD ".extern .func ("), 0);
}

/* A cubin with these symbols, of which the names without a place end with '?'. */
static struct image_build cubin(const char *const *names, unsigned count)
{
	struct image_build text = { 0 }, symbols = { 0 }, b;
	struct image_section sections[] = { { ".strtab", 0, 0 }, { ".symtab", 0, 0 } };
	Elf64_Shdr *table;

	image_build_add(&text, "", 1);
	image_build_add(&symbols, NULL, sizeof(Elf64_Sym));
	for (unsigned i = 0; i < count; i++) {
		size_t length = strcspn(names[i], "?");
		Elf64_Sym s = { .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				.st_shndx = names[i][length] ? SHN_UNDEF : 1 };

		s.st_name = (Elf64_Word)image_build_add(&text, names[i], length);
		image_build_add(&text, "", 1);
		image_build_add(&symbols, &s, sizeof(s));
	}
	sections[0].bytes = text.bytes;
	sections[1].bytes = symbols.bytes;
	b = image_build_elf(sections, 2);
	table = (Elf64_Shdr *)(void *)(b.at + ((Elf64_Ehdr *)(void *)b.at)->e_shoff);
	table[3].sh_type = SHT_SYMTAB;
	table[3].sh_link = 2;
	memcpy(b.at + table[2].sh_offset, text.at, text.bytes);
	memcpy(b.at + table[3].sh_offset, symbols.at, symbols.bytes);
	free(text.at);
	free(symbols.at);
	return b;
}

/* As a compiler writes them: of variables st_other has 4 where they are managed. */
static void managed_variables_of_a_cubin(void)
{
	const Elf64_Sym symbols[] = {
		{ .st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT), .st_other = 4, .st_size = 4096 },
		{ .st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT), .st_size = 1000 },
		{ .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), .st_other = 4, .st_size = 4 },
		{ .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		  .st_other = 16,
		  .st_size = 640,
		  .st_shndx = 1 },
		{ .st_info = ELF64_ST_INFO(STB_WEAK, STT_NOTYPE), .st_other = 0xa0 },
	};
	const struct image_section sections[] = { { ".strtab", 1, 0 },
						  { ".symtab", sizeof(symbols), 0 },
						  { ".nv.global", 5096, 1 },
						  { ".nv.global.init", 4, 0 } };
	struct image_build b = image_build_elf(sections, 4);
	Elf64_Shdr *table = (Elf64_Shdr *)(void *)(b.at + ((Elf64_Ehdr *)(void *)b.at)->e_shoff);
	struct image_bytes bytes;

	table[3].sh_type = SHT_SYMTAB;
	table[3].sh_link = 2;
	memcpy(b.at + table[3].sh_offset, symbols, sizeof(symbols));
	bytes = image_read(b.at, 90);
	CHECK_EQ(bytes.managed_bytes, 4100);
	CHECK_EQ(bytes.variable_bytes, 1000);
	free(b.at);
}

static unsigned calls_of(const char *const *names, unsigned count)
{
	struct image_build b = cubin(names, count);
	unsigned found = image_read(b.at, 90).calls;

	free(b.at);
	return found;
}

static void calls_of_a_cubin(void)
{
	static const char *const own[] = { "kernel", "malloc", "vprintf" };
	static const char *const heap[] = { "kernel", "malloc?" };
	static const char *const several[] = { "vprintf?", "k",
					       "__cuda_syscall_cnpv2LaunchDeviceV2?" };
	static const char *const odd[] = { "a_function_whose_name_is_longer_than_is_read?" };

	CHECK_EQ(calls_of(own, COUNT(own)), 0);
	CHECK_EQ(calls_of(heap, COUNT(heap)), IMAGE_CALLS_HEAP);
	CHECK_EQ(calls_of(several, COUNT(several)), IMAGE_CALLS_PRINT | IMAGE_CALLS_LAUNCH);
	CHECK_EQ(calls_of(odd, COUNT(odd)), IMAGE_CALLS_OTHER);
}

/* A table that is not there as it says may have any. */
static void a_broken_table(void)
{
	static const char *const names[] = { "kernel", "free?" };
	struct image_build b = cubin(names, COUNT(names));
	Elf64_Shdr *table = (Elf64_Shdr *)(void *)(b.at + ((Elf64_Ehdr *)(void *)b.at)->e_shoff);
	uint64_t bytes = table[3].sh_size;

	table[3].sh_size = UINT64_MAX / 2;
	CHECK_EQ(image_read(b.at, 90).calls, IMAGE_CALLS_ALL);
	table[3].sh_size = bytes;
	table[3].sh_link = 99;
	CHECK_EQ(image_read(b.at, 90).calls, IMAGE_CALLS_ALL);
	table[3].sh_link = 2;
	table[2].sh_offset = UINT64_MAX / 2;
	CHECK_EQ(image_read(b.at, 90).calls, IMAGE_CALLS_ALL);
	table[3].sh_size = 0;
	CHECK_EQ(image_read(b.at, 90).calls, 0);
	free(b.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(calls_of_text),
		fresh_test(calls_of_a_cubin),
		fresh_test(managed_variables_of_a_cubin),
		fresh_test(a_broken_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
