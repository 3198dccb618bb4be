#include "core/image.h"

#include "base/lz4.h"
#include "core/image_text.h"
#include "fresh.h"
#include "image_build.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD ".version 7.0\n.target sm_50\n.address_size 64\n"
#define MIB (UINT64_C(1) << 20)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static uint64_t variables(const char *text)
{
	return image_read(text, 90).variable_bytes;
}

static uint64_t managed(const char *text)
{
	return image_read(text, 90).managed_bytes;
}

static void variables_of_text(void)
{
	CHECK_EQ(variables(NULL), 0);
	CHECK_EQ(variables(HEAD), 0);
	CHECK_EQ(variables(HEAD ".global .b8 a[1000];"), 1000);
	CHECK_EQ(variables("// x\n" HEAD ".visible .global .align 16 .b8 a[65536];"
			   ".global .v4 .f32 b;\n.weak .global .u64 c[2][3];"),
		 65536 + 16 + 48);
	CHECK_EQ(variables(HEAD ".global .u32 a[4] = {1, 2, 3, 4};\n.global .f64 b = 0d0;"), 24);
	CHECK_EQ(managed(HEAD ".global .attribute(.managed) .s32 a[3];"), 12);
	CHECK_EQ(variables(HEAD ".global .attribute(.managed) .s32 a[3];"), 0);
	CHECK_EQ(managed(HEAD ".visible .global .attribute(.managed) .b8 a[5];.global .b8 b[99];"
			      ".global .attribute(.managed) .align 8 .u32 c[2], d = 7;"),
		 20);
	CHECK_EQ(image_read(HEAD, 0).code_bytes, strlen(HEAD));
}

/* As hands write them, and not compilers: never less than the driver takes. */
static void odd_declarations(void)
{
	CHECK_EQ(variables(HEAD ".global .align 4 .b8 x[1000], y[4];"), 1004);
	CHECK_EQ(variables(HEAD ".global .u32 x[2] = {1, 2}, y, z[3] = {1, 2, 3};"), 24);
	CHECK_EQ(managed(HEAD ".global .attribute(.managed, .x) .align 4 .b8 x[1000];"), 1000);
	CHECK_EQ(managed(HEAD ".global .attribute(.unified(1, 2), .managed) .b8 x[1000];"), 1000);
	CHECK_EQ(variables(HEAD ".global .attribute(.unified(1, 2)) .b8 x[1000];"), 1000);
	CHECK_EQ(variables(HEAD ".file 1 \"a\\\"b\"\n.global .b8 x[1000];"), 1000);
	CHECK_EQ(variables(HEAD ".file 1 \"a\\\\\"\n.global .b8 x[1000];"), 1000);
	CHECK_EQ(variables("# 1 \"a.cu\"\n" HEAD ".global .b8 x[1000];"), 1000);
	CHECK_EQ(variables("\xef\xbb\xbf" HEAD ".global .b8 x[1000];"), 1000);
	CHECK_EQ(variables("\f\v" HEAD ".global .b8 x[1000];"), 1000);
	CHECK_EQ(variables(HEAD ".global .b8 x[0x100][010][0b11];"), 256 * 8 * 3);
	CHECK_EQ(variables(HEAD ".global .b8 x[ (1 << 10) + 3 * 2 - 1 ];"), 1029);
	CHECK_EQ(variables(HEAD ".global .b8 x[100U % 7 | 8 ^ 0xF & 12 >> 1 / 1];"), 14);
	CHECK_EQ(variables(HEAD ".global .b16 x[] = {1, 2, 3}, y[][2] = {{1, 2}, {3, 4}};"), 22);
	CHECK_EQ(variables(HEAD ".global .u64 x[2] = {generic(y), z + 4};"), 16);
	CHECK_EQ(variables(HEAD ".global .align 64 .b8 x;.global .align 4096 .b8 y, z;"), 8193);
	/* What the driver may know, and nobody here. */
	CHECK_EQ(variables(HEAD ".global .b8 x[1<<n];"), UINT64_MAX);
	CHECK_EQ(variables(HEAD ".global .b8 x[1<<64];"), UINT64_MAX);
	CHECK_EQ(variables(HEAD ".global .b8 x[1/0];"), UINT64_MAX);
	CHECK_EQ(variables(HEAD ".global .b8 x[4 4];"), UINT64_MAX);
	CHECK_EQ(variables(HEAD ".global .b8 x[08];"), UINT64_MAX);
	CHECK_EQ(variables(HEAD ".global .b8 x[((((((((((((((((((1))))))))))))))))))];"),
		 UINT64_MAX);
	CHECK_EQ(variables(HEAD ".global .f16x2 x[4];"), UINT64_MAX);
	CHECK_EQ(variables(HEAD ".global .b8 x<4>;"), UINT64_MAX);
}

static void what_is_no_variable(void)
{
	CHECK_EQ(variables(HEAD ".extern .global .b8 a[1000];.const .b8 b[99];"), 0);
	CHECK_EQ(variables(HEAD "// .global .b8 a[1000];\n/* .global .b8 b[5]; */"), 0);
	CHECK_EQ(variables(HEAD ".file 1 \".global .b8 a[7];\""), 0);
	CHECK_EQ(variables(HEAD ".entry k(){ ld.global.u32 %r1, [%rd1]; st.global.u32 [a], 1;}"),
		 0);
	CHECK_EQ(variables(HEAD ".entry k(.param .u64 .ptr .global .align 8 a, .param .u32 b){}"),
		 0);
	CHECK_EQ(variables(HEAD ".global .texref t;.global .b8 a[];"), 0);
}

/* What is no text, or is broken, is not read to anywhere. */
static void other_images(void)
{
	CHECK_EQ(variables(""), 0);
	CHECK_EQ(variables("\177ELF"), 0);
	CHECK_EQ(variables("\x50\xed\x55\xba\1\0\x10\0\xff\xff\0\0\0\0\0\0"), 0);
	CHECK_EQ(variables(".global .b8 a[1000];"), 0);
	CHECK_EQ(variables(HEAD "/* no end"), 0);
	CHECK_EQ(variables(HEAD ".file \"no end"), 0);
	CHECK_EQ(variables(HEAD ".global"), 0);
	CHECK_EQ(variables(HEAD ".global .b8 a["), 0);
	CHECK_EQ(variables(HEAD ".global .b8 a[99999999999999999999999];"), UINT64_MAX);
	CHECK_EQ(variables(HEAD ".global .b64 a[2305843009213693951][9];.global .b8 b[9];"),
		 UINT64_MAX);
}

static const struct image_section sections[] = {
	{ ".text.kernel", 4096, 0 },    { ".nv.constant0.kernel", 512, 0 },
	{ ".nv.constant3", 100, 0 },    { ".nv.shared.kernel", 49152, 1 },
	{ ".nv.global", 300 * MIB, 1 }, { ".nv.global.init", 1000, 0 },
	{ ".nv.info", 64, 0 },          { ".text.another", 1024, 0 },
};
static const uint64_t elf_variables = 300 * MIB + 1000 + 512 + 100;

static void a_cubin(void)
{
	struct image_build b = image_build_elf(sections, COUNT(sections));
	struct image_bytes bytes = image_read(b.at, 90);

	CHECK_EQ(bytes.variable_bytes, elf_variables);
	CHECK_EQ(bytes.code_bytes, 5120);
	/* Of another machine, or of 32 bits. */
	b.at[18] = 62;
	CHECK_EQ(image_read(b.at, 90).variable_bytes, 0);
	b.at[18] = 190;
	b.at[EI_CLASS] = ELFCLASS32;
	CHECK_EQ(image_read(b.at, 90).variable_bytes, 0);
	free(b.at);
}

/* Its table of names says that it is shorter than they are, or is not there. */
static void a_cubin_of_odd_names(void)
{
	struct image_build b = image_build_elf(sections, COUNT(sections));
	Elf64_Shdr *table = (Elf64_Shdr *)(void *)(b.at + ((Elf64_Ehdr *)(void *)b.at)->e_shoff);

	table[1].sh_size = 1;
	CHECK_EQ(image_read(b.at, 90).variable_bytes, elf_variables);
	CHECK_EQ(image_read(b.at, 90).code_bytes, 5120);
	table[1].sh_offset = UINT64_MAX / 2;
	CHECK(image_read(b.at, 90).variable_bytes >= elf_variables + 5120);
	free(b.at);
}

/* A cubin with variables of so many bytes. */
static struct image_build elf_of(uint64_t bytes)
{
	struct image_section s[] = { { ".text.k", 300, 0 }, { ".nv.global", bytes, 1 } };

	return image_build_elf(s, 2);
}

/* Adds one to a fat binary; `flags` 0: not packed. */
static void add(struct image_build *fatbin, unsigned kind, unsigned arch,
		const struct image_build *plain, uint64_t flags)
{
	struct image_build packed = flags == IMAGE_ZSTD ?
					    image_build_zstd(plain->at, plain->bytes) :
					    image_build_lz4(plain->at, plain->bytes);

	image_build_member(fatbin, kind, arch, flags ? &packed : plain, flags ? plain->bytes : 0,
			   flags);
	free(packed.at);
}

static void add_elf(struct image_build *fatbin, unsigned arch, uint64_t bytes, uint64_t flags)
{
	struct image_build elf = elf_of(bytes);

	add(fatbin, IMAGE_ELF, arch, &elf, flags);
	free(elf.at);
}

static void add_text(struct image_build *fatbin, const char *text, uint64_t flags)
{
	add(fatbin, IMAGE_TEXT, 70,
	    &(struct image_build){ (unsigned char *)(uintptr_t)text, strlen(text) + 1 }, flags);
}

static void a_fat_binary(void)
{
	struct image_build b = image_build_fatbin();
	struct {
		uint32_t magic, version;
		const void *at, *more;
	} wrapper = { .magic = 0x466243b1, .version = 1 };

	add_elf(&b, 80, 8 * MIB, 0);
	add_elf(&b, 86, 9 * MIB, IMAGE_PACKED);
	add_elf(&b, 90, 10 * MIB, IMAGE_ZSTD);
	add_elf(&b, 120, 11 * MIB, 0);
	add_text(&b, HEAD ".global .b8 a[7777];", IMAGE_PACKED);
	CHECK_EQ(image_read(b.at, 80).variable_bytes, 8 * MIB);
	CHECK_EQ(image_read(b.at, 86).variable_bytes, 9 * MIB);
	CHECK_EQ(image_read(b.at, 89).variable_bytes, 9 * MIB);
	CHECK_EQ(image_read(b.at, 90).variable_bytes, 10 * MIB);
	CHECK_EQ(image_read(b.at, 90).code_bytes, 300);
	/* None of them runs there: the text does. */
	CHECK_EQ(image_read(b.at, 75).variable_bytes, 7777);
	CHECK_EQ(image_read(b.at, 0).variable_bytes, 11 * MIB);
	wrapper.at = b.at;
	CHECK_EQ(image_read(&wrapper, 90).variable_bytes, 10 * MIB);
	free(b.at);
}

/* The one that fits stands behind many. */
static void a_fat_binary_of_many(void)
{
	struct image_build b = image_build_fatbin(), one = image_build_fatbin();
	struct image_build bytes = { (unsigned char *)(uintptr_t) "12345678", 8 };
	enum { MANY = 5000, ONE_BYTES = 64 + 8 };
	unsigned char *all = malloc((size_t)MANY * ONE_BYTES);

	image_build_member(&one, IMAGE_ELF, 70, &bytes, 0, 0);
	CHECK(all && one.bytes == 16 + ONE_BYTES);
	for (size_t i = 0; i < MANY; i++)
		memcpy(all + i * ONE_BYTES, one.at + 16, ONE_BYTES);
	image_build_add(&b, all, (size_t)MANY * ONE_BYTES);
	add_elf(&b, 90, 10 * MIB, 0);
	CHECK_EQ(image_read(b.at, 90).variable_bytes, 10 * MIB);
	free(all);
	free(one.at);
	free(b.at);
}

/* Where the architecture is not known, it may be the text that runs. */
static void of_any_architecture(void)
{
	struct image_build b = image_build_fatbin();

	add_elf(&b, 80, MIB, 0);
	add_text(&b, HEAD ".global .b8 a[7777777];", 0);
	CHECK_EQ(image_read(b.at, 80).variable_bytes, MIB);
	CHECK_EQ(image_read(b.at, 90).variable_bytes, 7777777);
	CHECK_EQ(image_read(b.at, 0).variable_bytes, 7777777);
	free(b.at);
}

/* What cannot be unpacked here takes what its header says. */
static void what_nobody_can_read(void)
{
	static const unsigned char zstd[] = { 0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3, 4 };
	struct image_build b = image_build_fatbin();
	struct image_build member = { (unsigned char *)(uintptr_t)zstd, sizeof(zstd) };

	image_build_member(&b, IMAGE_ELF, 90, &member, 200 * 1024, IMAGE_ZSTD);
	CHECK_EQ(image_read(b.at, 90).variable_bytes, 200 * 1024);
	/* More than any packing makes of so little is not believed, nor less than there is. */
	image_build_member(&b, IMAGE_ELF, 80, &member, UINT64_MAX, IMAGE_ZSTD);
	CHECK_EQ(image_read(b.at, 80).variable_bytes, 8 * 32 * 1024);
	image_build_member(&b, IMAGE_ELF, 70, &member, 1, IMAGE_PACKED);
	CHECK_EQ(image_read(b.at, 70).variable_bytes, 8);
	free(b.at);
	b = image_build_fatbin();
	image_build_member(&b, 64, 90, &member, 0, 0);
	CHECK_EQ(image_read(b.at, 90).variable_bytes, 8);
	free(b.at);
}

/* However it is packed and whatever its header says, one is never taken for less than it is. */
static void packed_is_no_less(void)
{
	static const uint64_t ways[] = { 0, IMAGE_PACKED, IMAGE_ZSTD };
	struct image_build elf = image_build_elf(sections, COUNT(sections));
	struct image_build odd = { 0 };

	for (unsigned i = 0; i < COUNT(ways); i++) {
		struct image_build b = image_build_fatbin();
		struct image_bytes bytes;

		add(&b, IMAGE_ELF, 90, &elf, ways[i]);
		bytes = image_read(b.at, 90);
		CHECK_EQ(bytes.variable_bytes, elf_variables);
		CHECK_EQ(bytes.code_bytes, 5120);
		free(b.at);
	}
	/* Frames say how long they are themselves. */
	for (unsigned i = 0; i < 3; i++) {
		static const uint64_t said[] = { 0, 1, UINT32_MAX };
		struct image_build b = image_build_fatbin(), packed;

		packed = image_build_zstd(elf.at, elf.bytes);
		image_build_member(&b, IMAGE_ELF, 90, &packed, said[i], IMAGE_ZSTD);
		CHECK_EQ(image_read(b.at, 90).variable_bytes, elf_variables);
		free(packed.at);
		free(b.at);
	}
	/* What is no image takes as much as it is unpacked. */
	image_build_add(&odd, NULL, 3 * MIB);
	for (unsigned i = 0; i < COUNT(ways); i++) {
		struct image_build b = image_build_fatbin();

		add(&b, IMAGE_ELF, 90, &odd, ways[i]);
		CHECK(image_read(b.at, 90).variable_bytes >= 3 * MIB);
		CHECK(image_read(b.at, 90).variable_bytes < 4 * MIB);
		free(b.at);
	}
	free(odd.at);
	free(elf.at);
}

static void a_file(void)
{
	struct image_build b = image_build_fatbin();
	const char *path = scratch_path("image");
	FILE *f = fopen(path, "w");

	add_elf(&b, 90, 10 * MIB, IMAGE_PACKED);
	CHECK(f && fwrite(b.at, 1, b.bytes, f) == b.bytes && fclose(f) == 0);
	CHECK_EQ(image_read_file(path, 90).variable_bytes, 10 * MIB);
	f = fopen(path, "w");
	CHECK(f && fputs(HEAD ".global .b8 a[1000];", f) >= 0 && fclose(f) == 0);
	CHECK_EQ(image_read_file(path, 90).variable_bytes, 1000);
	f = fopen(path, "w");
	CHECK(f && fclose(f) == 0);
	CHECK_EQ(image_read_file(path, 90).variable_bytes, 0);
	CHECK_EQ(image_read_file("/", 90).variable_bytes, 0);
	CHECK_EQ(image_read_file("/nowhere", 90).variable_bytes, 0);
	CHECK_EQ(image_read_file(NULL, 90).variable_bytes, 0);
	free(b.at);
	/* What can be read once is the driver's. */
	CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
	CHECK_EQ(image_read_file(path, 90).variable_bytes, UINT64_MAX);
}

/* The image at the end of what is mapped: whatever it says, nothing behind it is touched. */
static unsigned char *at_the_end(const struct image_build *b)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (b->bytes / page + 1) * page;
	unsigned char *map = mmap(NULL, room + page, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(map != MAP_FAILED && munmap(map + room, page) == 0);
	memcpy(map + room - b->bytes, b->at, b->bytes);
	return map + room - b->bytes;
}

static uint64_t random_state = 88172645463325252;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Words that lengths and places go wrong by. */
static uint64_t odd_word(void)
{
	static const uint64_t words[] = {
		0,          1,         7,          8,         63,         UINT8_MAX,      INT16_MAX,
		UINT16_MAX, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 15
	};

	return random_next() % 2 ? words[random_next() % COUNT(words)] : random_next();
}

static void mutate(unsigned char *at, size_t bytes)
{
	uint64_t word = odd_word();
	size_t size = (size_t)1 << random_next() % 4;

	/* Mostly of the headers. */
	if (random_next() % 2 && bytes > 256)
		bytes = 256;
	memcpy(at + random_next() % (bytes - size), &word, size);
}

static void try_mutants(const struct image_build *b, int rounds)
{
	unsigned char *at = at_the_end(b);

	for (int i = 0; i < rounds; i++) {
		memcpy(at, b->at, b->bytes);
		for (uint64_t n = random_next() % 6 + 1; n; n--)
			mutate(at, b->bytes);
		image_read(at, random_next() % 2 ? 90 : 0);
	}
	/* And cut short: it ends where the pages do. */
	for (size_t cut = 0; cut < b->bytes; cut += 1 + b->bytes / 500) {
		memcpy(at + cut, b->at, b->bytes - cut);
		image_read(at + cut, 90);
	}
}

static void broken_images_are_read_to_nowhere(void)
{
	struct image_build elf = image_build_elf(sections, COUNT(sections));
	struct image_build fatbin = image_build_fatbin();

	add_elf(&fatbin, 90, 10 * MIB, IMAGE_PACKED);
	add_elf(&fatbin, 90, 11 * MIB, 0);
	add_elf(&fatbin, 90, 12 * MIB, IMAGE_ZSTD);
	add_text(&fatbin, HEAD ".global .b8 a[7777];", IMAGE_PACKED);
	add_text(&fatbin, HEAD ".global .b8 a[7777];", 0);
	try_mutants(&elf, 20000);
	try_mutants(&fatbin, 20000);
	CHECK_EQ(image_read((const void *)-16, 90).variable_bytes, 0);
	CHECK_EQ(image_read_file("/proc/self/mem", 90).variable_bytes, 0);
	free(elf.at);
	free(fatbin.at);
}

static void lz4_there_and_back(void)
{
	unsigned char plain[5000], back[5000];

	for (int round = 0; round < 300; round++) {
		size_t bytes = random_next() % sizeof(plain), at = 0;
		struct image_build packed;

		while (at < bytes) {
			size_t run = random_next() % 3 ? 1 : random_next() % 600;
			unsigned char c = (unsigned char)random_next();

			while (run-- && at < bytes)
				plain[at++] = c;
		}
		packed = image_build_lz4(plain, bytes);
		CHECK_EQ(lz4_decode(packed.at, packed.bytes, back, bytes), bytes);
		CHECK(memcmp(plain, back, bytes) == 0);
		/* No room for all of it. */
		CHECK(bytes == 0 || lz4_decode(packed.at, packed.bytes, back, bytes - 1) == -1);
		for (int i = 0; i < 50; i++) {
			struct image_build copy = { 0 };

			image_build_add(&copy, packed.at, random_next() % (packed.bytes + 1));
			if (copy.bytes > 8)
				mutate(copy.at, copy.bytes);
			lz4_decode(copy.at, copy.bytes, back, bytes);
			free(copy.at);
		}
		free(packed.at);
	}
	/* A match before the beginning; of nothing; a length without an end. */
	CHECK(lz4_decode("\x10"
			 "a\x02\x00",
			 4, back, 100) == -1);
	CHECK(lz4_decode("\x10"
			 "a\x00\x00",
			 4, back, 100) == -1);
	CHECK(lz4_decode("\xf0\xff\xff", 3, back, 100) == -1);
	CHECK(lz4_decode("", 0, back, 100) == -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(variables_of_text),
		fresh_test(odd_declarations),
		fresh_test(what_is_no_variable),
		fresh_test(other_images),
		fresh_test(a_cubin),
		fresh_test(a_cubin_of_odd_names),
		fresh_test(a_fat_binary),
		fresh_test(a_fat_binary_of_many),
		fresh_test(of_any_architecture),
		fresh_test(what_nobody_can_read),
		fresh_test(packed_is_no_less),
		fresh_test(a_file),
		fresh_test(broken_images_are_read_to_nowhere),
		fresh_test(lz4_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
