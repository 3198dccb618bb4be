#include "core/image.h"

#include "fresh.h"

#define HEAD ".version 7.0\n.target sm_50\n.address_size 64\n"

static void variables_of_text(void)
{
	CHECK_EQ(image_variable_bytes(NULL), 0);
	CHECK_EQ(image_variable_bytes(HEAD), 0);
	CHECK_EQ(image_variable_bytes(HEAD ".global .b8 a[1000];"), 1000);
	CHECK_EQ(image_variable_bytes("// x\n" HEAD ".visible .global .align 16 .b8 a[65536];"
				      ".global .v4 .f32 b;\n.weak .global .u64 c[2][3];"),
		 65536 + 16 + 48);
	CHECK_EQ(image_variable_bytes(HEAD
				      ".global .u32 a[4] = {1, 2, 3, 4};\n.global .f64 b = 0d0;"),
		 24);
	CHECK_EQ(image_variable_bytes(HEAD ".global .attribute(.managed) .s32 a[3];"), 12);
}

static void what_is_no_variable(void)
{
	CHECK_EQ(image_variable_bytes(HEAD ".extern .global .b8 a[1000];.const .b8 b[99];"), 0);
	CHECK_EQ(image_variable_bytes(HEAD "// .global .b8 a[1000];\n/* .global .b8 b[5]; */"), 0);
	CHECK_EQ(image_variable_bytes(HEAD ".file 1 \".global .b8 a[7];\""), 0);
	CHECK_EQ(image_variable_bytes(
			 HEAD ".entry k(){ ld.global.u32 %r1, [%rd1]; st.global.u32 [a], 1;}"),
		 0);
	CHECK_EQ(image_variable_bytes(HEAD ".global .texref t;.global .b8 a[];"), 0);
}

/* What is no text, or is broken, is not read to anywhere. */
static void other_images(void)
{
	CHECK_EQ(image_variable_bytes(""), 0);
	CHECK_EQ(image_variable_bytes("\177ELF"), 0);
	CHECK_EQ(image_variable_bytes("\x50\xed\x55\xba"), 0);
	CHECK_EQ(image_variable_bytes(".global .b8 a[1000];"), 0);
	CHECK_EQ(image_variable_bytes(HEAD "/* no end"), 0);
	CHECK_EQ(image_variable_bytes(HEAD ".file \"no end"), 0);
	CHECK_EQ(image_variable_bytes(HEAD ".global"), 0);
	CHECK_EQ(image_variable_bytes(HEAD ".global .b8 a["), 0);
	CHECK_EQ(image_variable_bytes(HEAD ".global .b8 a[99999999999999999999999];"), UINT64_MAX);
	CHECK_EQ(image_variable_bytes(HEAD
				      ".global .b64 a[2305843009213693951][9];.global .b8 b[9];"),
		 UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(variables_of_text),
		fresh_test(what_is_no_variable),
		fresh_test(other_images),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
