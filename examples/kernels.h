/*
 * The kernels of the examples as PTX, for the driver to compile. The software GPU has kernels of
 * its own under the same names, with the same parameters and results.
 *
 *   empty()                                      nothing
 *   spin(u64 ns)                                 takes that long
 *   fill(u64 address, u32 value, u64 words)      words of 4 bytes
 *   copy(u64 to, u64 from, u64 bytes)
 *   add(u64 to, u64 a, u64 b, u64 words)         to[i] = a[i] + b[i], f32
 *   ncclMeet(u64 own, u64 other, u64 goal)       *own = goal, and waits until *other >= goal: as
 *                                                collectives wait, and with such a name
 *   checksum(u64 address, u64 bytes, u64 result) *result = sum of byte[i] * (2 i + 1) mod 2^64
 *
 * All work for any grid and block.
 */
#pragma once

/* r1 = this thread's number, r2 = number of threads, both in the whole grid and 64 bits wide */
#define KERNELS_INDEX                     \
	"	mov.u32 %a, %ctaid.x;\n"        \
	"	mov.u32 %b, %ntid.x;\n"         \
	"	mov.u32 %c, %tid.x;\n"          \
	"	mad.wide.u32 %r1, %a, %b, 0;\n" \
	"	cvt.u64.u32 %r3, %c;\n"         \
	"	add.u64 %r1, %r1, %r3;\n"       \
	"	mov.u32 %a, %nctaid.x;\n"       \
	"	mul.wide.u32 %r2, %a, %b;\n"

static const char kernels_ptx[] =
	".version 6.0\n"
	".target sm_50\n"
	".address_size 64\n"

	".visible .entry empty()\n"
	"{\n"
	"	ret;\n"
	"}\n"

	".visible .entry spin(.param .u64 ns)\n"
	"{\n"
	"	.reg .u64 %t<4>;\n"
	"	.reg .pred %p;\n"
	"	ld.param.u64 %t1, [ns];\n"
	"	mov.u64 %t2, %globaltimer;\n"
	"again:\n"
	"	mov.u64 %t3, %globaltimer;\n"
	"	sub.u64 %t3, %t3, %t2;\n"
	"	setp.lt.u64 %p, %t3, %t1;\n"
	"	@%p bra again;\n"
	"	ret;\n"
	"}\n"

	".visible .entry fill(.param .u64 address, .param .u32 value, .param .u64 words)\n"
	"{\n"
	"	.reg .u32 %a, %b, %c, %v;\n"
	"	.reg .u64 %r<8>;\n"
	"	.reg .pred %p;\n"
	"	ld.param.u64 %r4, [address];\n"
	"	ld.param.u32 %v, [value];\n"
	"	ld.param.u64 %r5, [words];\n" KERNELS_INDEX "again:\n"
	"	setp.ge.u64 %p, %r1, %r5;\n"
	"	@%p bra end;\n"
	"	shl.b64 %r6, %r1, 2;\n"
	"	add.u64 %r6, %r6, %r4;\n"
	"	st.global.u32 [%r6], %v;\n"
	"	add.u64 %r1, %r1, %r2;\n"
	"	bra again;\n"
	"end:\n"
	"	ret;\n"
	"}\n"

	".visible .entry copy(.param .u64 to, .param .u64 from, .param .u64 bytes)\n"
	"{\n"
	"	.reg .u32 %a, %b, %c;\n"
	"	.reg .u16 %v;\n"
	"	.reg .u64 %r<9>;\n"
	"	.reg .pred %p;\n"
	"	ld.param.u64 %r4, [to];\n"
	"	ld.param.u64 %r5, [from];\n"
	"	ld.param.u64 %r6, [bytes];\n" KERNELS_INDEX "again:\n"
	"	setp.ge.u64 %p, %r1, %r6;\n"
	"	@%p bra end;\n"
	"	add.u64 %r7, %r5, %r1;\n"
	"	ld.global.u8 %v, [%r7];\n"
	"	add.u64 %r7, %r4, %r1;\n"
	"	st.global.u8 [%r7], %v;\n"
	"	add.u64 %r1, %r1, %r2;\n"
	"	bra again;\n"
	"end:\n"
	"	ret;\n"
	"}\n"

	".visible .entry add(.param .u64 to, .param .u64 first, .param .u64 second,\n"
	"		    .param .u64 words)\n"
	"{\n"
	"	.reg .u32 %a, %b, %c;\n"
	"	.reg .f32 %x, %y;\n"
	"	.reg .u64 %r<10>;\n"
	"	.reg .pred %p;\n"
	"	ld.param.u64 %r4, [to];\n"
	"	ld.param.u64 %r5, [first];\n"
	"	ld.param.u64 %r6, [second];\n"
	"	ld.param.u64 %r7, [words];\n" KERNELS_INDEX "again:\n"
	"	setp.ge.u64 %p, %r1, %r7;\n"
	"	@%p bra end;\n"
	"	shl.b64 %r8, %r1, 2;\n"
	"	add.u64 %r9, %r5, %r8;\n"
	"	ld.global.f32 %x, [%r9];\n"
	"	add.u64 %r9, %r6, %r8;\n"
	"	ld.global.f32 %y, [%r9];\n"
	"	add.rn.f32 %x, %x, %y;\n"
	"	add.u64 %r9, %r4, %r8;\n"
	"	st.global.f32 [%r9], %x;\n"
	"	add.u64 %r1, %r1, %r2;\n"
	"	bra again;\n"
	"end:\n"
	"	ret;\n"
	"}\n"

	".visible .entry ncclMeet(.param .u64 own, .param .u64 other, .param .u64 goal)\n"
	"{\n"
	"	.reg .u64 %r<5>;\n"
	"	.reg .pred %p;\n"
	"	ld.param.u64 %r1, [own];\n"
	"	ld.param.u64 %r2, [other];\n"
	"	ld.param.u64 %r3, [goal];\n"
	"	st.volatile.global.u64 [%r1], %r3;\n"
	"	membar.sys;\n"
	"again:\n"
	"	ld.volatile.global.u64 %r4, [%r2];\n"
	"	setp.lt.u64 %p, %r4, %r3;\n"
	"	@%p bra again;\n"
	"	ret;\n"
	"}\n"

	/* every block computes the whole sum, so that no block has to wait for another */
	".visible .entry checksum(.param .u64 address, .param .u64 bytes, .param .u64 result)\n"
	"{\n"
	"	.shared .align 8 .u64 total;\n"
	"	.reg .u32 %a, %b, %c;\n"
	"	.reg .u16 %v;\n"
	"	.reg .u64 %r<10>;\n"
	"	.reg .pred %p, %q;\n"
	"	ld.param.u64 %r4, [address];\n"
	"	ld.param.u64 %r5, [bytes];\n"
	"	ld.param.u64 %r6, [result];\n"
	"	mov.u32 %b, %ntid.x;\n"
	"	mov.u32 %c, %tid.x;\n"
	"	cvt.u64.u32 %r1, %c;\n"
	"	cvt.u64.u32 %r2, %b;\n"
	"	mov.u64 %r7, 0;\n"
	"	setp.ne.u32 %q, %c, 0;\n"
	"	@%q bra zeroed;\n"
	"	st.shared.u64 [total], %r7;\n"
	"zeroed:\n"
	"	bar.sync 0;\n"
	"again:\n"
	"	setp.ge.u64 %p, %r1, %r5;\n"
	"	@%p bra summed;\n"
	"	add.u64 %r8, %r4, %r1;\n"
	"	ld.global.u8 %v, [%r8];\n"
	"	cvt.u64.u16 %r8, %v;\n"
	"	shl.b64 %r9, %r1, 1;\n"
	"	add.u64 %r9, %r9, 1;\n"
	"	mad.lo.u64 %r7, %r8, %r9, %r7;\n"
	"	add.u64 %r1, %r1, %r2;\n"
	"	bra again;\n"
	"summed:\n"
	"	atom.shared.add.u64 %r8, [total], %r7;\n"
	"	bar.sync 0;\n"
	"	@%q bra end;\n"
	"	ld.shared.u64 %r7, [total];\n"
	"	st.global.u64 [%r6], %r7;\n"
	"end:\n"
	"	ret;\n"
	"}\n";
