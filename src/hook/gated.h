/*
 * Hooks that do nothing but pass the gate: GATED(symbol, types of the parameters...) defines
 * hook_<symbol>. Where the types are not those of the driver's declaration it does not compile.
 *
 * The driver is there when it is called by a pointer that we handed out; a linked program may come
 * first.
 */
#pragma once

#include "base/clock.h"
#include "core/gate.h"
#include "hook/enter.h"
#include "hook/metering.h"
#include "hook/room.h"
#include "hook/uses.h"
#include "hook/uses_sample.h"
#include "hook/work.h"

#define GATED(sym, ...) GATED_ON(sym, true, __VA_ARGS__)

/* As GATED(); what is not right (an expression of the parameters a, b, c...) is INVALID_VALUE. */
#define GATED_ON(sym, is_right, ...) GATED_AS(CUresult hook_##sym, sym, is_right, __VA_ARGS__)

/* As that, with another head than the hook's. */
#define GATED_AS(head, sym, is_right, ...)                           \
	head(GATED_PARAMS(__VA_ARGS__))                              \
	{                                                            \
		if (!ENTER_HAS(sym))                                 \
			return enter_missing();                      \
		if (!(is_right))                                     \
			return CUDA_ERROR_INVALID_VALUE;             \
		return GATE_CALL(real.sym(GATED_ARGS(__VA_ARGS__))); \
	}

/*
 * As GATED() for a call that gives the GPU work: `call` is what it gives, a struct work_call made of the
 * parameters a, b, c..., `function` the kernel in it or NULL. While nobody watches the gate nothing is
 * made of it, and little while nothing but other functions' first launches are watched for. The hook
 * itself only looks who watches, and leaves by a jump: to pass_, like_ and the rest in the order of what
 * they take, so that none saves registers for another.
 *
 * Where the card turns out to be full the call is made again, for which its parameters are kept: in
 * memory (GATED_KEEP), that of the caller for those that came on the stack, so that they take no
 * register across the driver call.
 */
#define WORK(sym, function, call, ...) WORK_OF(sym, true, (void)0, function, call, __VA_ARGS__)

/* As WORK() and GATED_ON(). */
#define WORK_ON(sym, is_right, function, call, ...) \
	WORK_OF(sym, is_right, (void)0, function, call, __VA_ARGS__)

/* As WORK(), with what says which objects it uses, for when that is asked for. */
#define WORK_WITH(sym, uses, function, call, ...) \
	WORK_OF(sym, true, uses, function, call, __VA_ARGS__)

#define WORK_OF(sym, ...) WORK_AS(CUresult hook_##sym, sym, __VA_ARGS__)

#define WORK_AS(head, sym, is_right, uses, function, call, ...)                                 \
	__attribute__((noinline)) static CUresult work_##sym(GATED_PARAMS(__VA_ARGS__))         \
	{                                                                                       \
		struct work w;                                                                  \
		CUresult res;                                                                   \
                                                                                                \
		if (!ENTER_HAS(sym))                                                            \
			return enter_missing();                                                 \
		res = work_begin(&w, call);                                                     \
		if (res != CUDA_SUCCESS)                                                        \
			return res;                                                             \
		res = ROOM_CALL_HERE(work_lacks_bytes(&w), real.sym(GATED_ARGS(__VA_ARGS__)));  \
		work_end(&w, res);                                                              \
		return res;                                                                     \
	}                                                                                       \
	__attribute__((noinline, cold)) static CUresult full_##sym(GATED_POINTERS(__VA_ARGS__)) \
	{                                                                                       \
		if (!room_make_here(&(struct room){ 0 }, 0))                                    \
			return CUDA_ERROR_OUT_OF_MEMORY;                                        \
		return work_##sym(GATED_POINTED(__VA_ARGS__));                                  \
	}                                                                                       \
	__attribute__((noinline)) static CUresult like_##sym(GATED_PARAMS(__VA_ARGS__))         \
	{                                                                                       \
		struct work_call what = call;                                                   \
		struct again *like = again_find(&what);                                         \
		int64_t cost_ns;                                                                \
		uint32_t was_in;                                                                \
		CUresult res;                                                                   \
                                                                                                \
		GATED_KEEP(__VA_ARGS__);                                                        \
		if (__builtin_expect(!like || !real.sym || !again_may_go(like, &cost_ns) ||     \
					     !gate_try(&was_in),                                \
				     0))                                                        \
			return work_##sym(GATED_ARGS(__VA_ARGS__));                             \
		again_begin(like, cost_ns);                                                     \
		res = real.sym(GATED_ARGS(__VA_ARGS__));                                        \
		gate_leave_try(was_in);                                                         \
		if (__builtin_expect(res == CUDA_SUCCESS, 1)) {                                 \
			again_end(like, cost_ns);                                               \
			return CUDA_SUCCESS;                                                    \
		}                                                                               \
		again_cancel(like, cost_ns);                                                    \
		return res == CUDA_ERROR_OUT_OF_MEMORY ? full_##sym(GATED_KEPT(__VA_ARGS__)) :  \
							 res;                                   \
	}                                                                                       \
	__attribute__((noinline)) static CUresult pass_##sym(GATED_PARAMS(__VA_ARGS__))         \
	{                                                                                       \
		uint32_t was_in;                                                                \
		CUresult res;                                                                   \
                                                                                                \
		GATED_KEEP(__VA_ARGS__);                                                        \
		if (__builtin_expect(!real.sym || !gate_try(&was_in), 0))                       \
			return work_##sym(GATED_ARGS(__VA_ARGS__));                             \
		res = real.sym(GATED_ARGS(__VA_ARGS__));                                        \
		gate_leave_try(was_in);                                                         \
		if (__builtin_expect(res == CUDA_ERROR_OUT_OF_MEMORY, 0))                       \
			return full_##sym(GATED_KEPT(__VA_ARGS__));                             \
		return res;                                                                     \
	}                                                                                       \
	__attribute__((noinline)) static CUresult look_##sym(GATED_PARAMS(__VA_ARGS__))         \
	{                                                                                       \
		CUresult res;                                                                   \
                                                                                                \
		if (real.sym && object_use_is_wanted()) {                                       \
			uses;                                                                   \
			if (uses_sample_is_on()) {                                              \
				res = work_##sym(GATED_ARGS(__VA_ARGS__));                      \
				uses_sample_end();                                              \
				return res;                                                     \
			}                                                                       \
		}                                                                               \
		if (work_passes(function))                                                      \
			return pass_##sym(GATED_ARGS(__VA_ARGS__));                             \
		return like_##sym(GATED_ARGS(__VA_ARGS__));                                     \
	}                                                                                       \
	head(GATED_PARAMS(__VA_ARGS__))                                                         \
	{                                                                                       \
		uint32_t word;                                                                  \
                                                                                                \
		if (!(is_right))                                                                \
			return CUDA_ERROR_INVALID_VALUE;                                        \
		word = gate_word();                                                             \
		if (__builtin_expect(word == GATE_OPEN, 1))                                     \
			return pass_##sym(GATED_ARGS(__VA_ARGS__));                             \
		if (__builtin_expect((word & (GATE_METERING | GATE_USES)) == GATE_METERING, 1)) \
			return like_##sym(GATED_ARGS(__VA_ARGS__));                             \
		return look_##sym(GATED_ARGS(__VA_ARGS__));                                     \
	}

/* True when all that is watched for are first launches, and this is none. */
static inline bool work_passes(const void *function)
{
	return (gate_word() & ~(uint32_t)GATE_FUNCTIONS) == GATE_OPEN && !metering_is_on() &&
	       function_is_settled(function);
}

/*
 * As GATED() for a call that has the stream do or wait for something that is not counted, if `is_long`:
 * it may take long enough to matter.
 */
#define GATED_FENCE(sym, is_long, stream, is_per_thread, ...) \
	GATED_FENCE_ON(sym, true, is_long, stream, is_per_thread, __VA_ARGS__)

#define GATED_FENCE_ON(sym, ...) GATED_FENCE_AS(CUresult hook_##sym, sym, __VA_ARGS__)

#define GATED_FENCE_AS(head, sym, is_right, is_long, stream, is_per_thread, ...) \
	head(GATED_PARAMS(__VA_ARGS__))                                          \
	{                                                                        \
		if (!ENTER_HAS(sym))                                             \
			return enter_missing();                                  \
		if (!(is_right))                                                 \
			return CUDA_ERROR_INVALID_VALUE;                         \
		if (metering_is_on() && (is_long))                               \
			work_fence(stream, is_per_thread);                       \
		return GATE_CALL(real.sym(GATED_ARGS(__VA_ARGS__)));             \
	}

/* As GATED() for a copy that waits for the default stream, the calling thread's if is_per_thread. */
#define GATED_WAIT(sym, is_per_thread, ...) GATED_WAIT_ON(sym, true, is_per_thread, __VA_ARGS__)

#define GATED_WAIT_ON(sym, ...) GATED_WAIT_AS(CUresult hook_##sym, sym, __VA_ARGS__)

#define GATED_WAIT_AS(head, sym, is_right, is_per_thread, ...)             \
	head(GATED_PARAMS(__VA_ARGS__))                                    \
	{                                                                  \
		int64_t begin_ns = metering_is_on() ? clock_now_ns() : 0;  \
		uint32_t was_in;                                           \
		CUresult res;                                              \
                                                                           \
		if (!ENTER_HAS(sym))                                       \
			return enter_missing();                            \
		if (!(is_right))                                           \
			return CUDA_ERROR_INVALID_VALUE;                   \
		was_in = gate_enter();                                     \
		res = real.sym(GATED_ARGS(__VA_ARGS__));                   \
		gate_leave(was_in);                                        \
		if (begin_ns && res == CUDA_SUCCESS)                       \
			work_waited(NULL, is_per_thread, false, begin_ns); \
		return res;                                                \
	}

#define GATED_PARAMS(...) GATED_PASTE(GATED_PARAMS_, GATED_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define GATED_ARGS(...) GATED_PASTE(GATED_ARGS_, GATED_COUNT(__VA_ARGS__))
#define GATED_PASTE(a, b) GATED_PASTE_NOW(a, b)
#define GATED_PASTE_NOW(a, b) a##b
#define GATED_COUNT(...) GATED_TWELFTH(__VA_ARGS__, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
#define GATED_TWELFTH(a, b, c, d, e, f, g, h, i, j, k, n, ...) n

#define GATED_PARAMS_1(ta) ta a
#define GATED_PARAMS_2(ta, tb) ta a, tb b
#define GATED_PARAMS_3(ta, tb, tc) ta a, tb b, tc c
#define GATED_PARAMS_4(ta, tb, tc, td) ta a, tb b, tc c, td d
#define GATED_PARAMS_5(ta, tb, tc, td, te) ta a, tb b, tc c, td d, te e
#define GATED_PARAMS_6(ta, tb, tc, td, te, tf) ta a, tb b, tc c, td d, te e, tf f
#define GATED_PARAMS_7(ta, tb, tc, td, te, tf, tg) ta a, tb b, tc c, td d, te e, tf f, tg g
#define GATED_PARAMS_8(ta, tb, tc, td, te, tf, tg, th) \
	ta a, tb b, tc c, td d, te e, tf f, tg g, th h
#define GATED_PARAMS_9(ta, tb, tc, td, te, tf, tg, th, ti) \
	ta a, tb b, tc c, td d, te e, tf f, tg g, th h, ti i
#define GATED_PARAMS_10(ta, tb, tc, td, te, tf, tg, th, ti, tj) \
	ta a, tb b, tc c, td d, te e, tf f, tg g, th h, ti i, tj j
#define GATED_PARAMS_11(ta, tb, tc, td, te, tf, tg, th, ti, tj, tk) \
	ta a, tb b, tc c, td d, te e, tf f, tg g, th h, ti i, tj j, tk k

#define GATED_ARGS_1 a
#define GATED_ARGS_2 a, b
#define GATED_ARGS_3 a, b, c
#define GATED_ARGS_4 a, b, c, d
#define GATED_ARGS_5 a, b, c, d, e
#define GATED_ARGS_6 a, b, c, d, e, f
#define GATED_ARGS_7 a, b, c, d, e, f, g
#define GATED_ARGS_8 a, b, c, d, e, f, g, h
#define GATED_ARGS_9 a, b, c, d, e, f, g, h, i
#define GATED_ARGS_10 a, b, c, d, e, f, g, h, i, j
#define GATED_ARGS_11 a, b, c, d, e, f, g, h, i, j, k

/*
 * Of the parameters: pointers to them; what those point at; for those that come in registers, places in
 * memory with their values; and the addresses of all, for another function.
 */
#define GATED_POINTERS(...) GATED_PASTE(GATED_POINTERS_, GATED_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define GATED_POINTED(...) GATED_PASTE(GATED_POINTED_, GATED_COUNT(__VA_ARGS__))
#define GATED_KEEP(...) GATED_PASTE(GATED_KEEP_, GATED_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define GATED_KEPT(...) GATED_PASTE(GATED_KEPT_, GATED_COUNT(__VA_ARGS__))

#define GATED_POINTERS_1(ta) __typeof__(ta) *a
#define GATED_POINTERS_2(ta, tb) __typeof__(ta) *a, __typeof__(tb) *b
#define GATED_POINTERS_3(ta, tb, tc) __typeof__(ta) *a, __typeof__(tb) *b, __typeof__(tc) *c
#define GATED_POINTERS_4(ta, tb, tc, td) \
	__typeof__(ta) *a, __typeof__(tb) *b, __typeof__(tc) *c, __typeof__(td) *d
#define GATED_POINTERS_5(ta, tb, tc, td, te)                                        \
	__typeof__(ta) *a, __typeof__(tb) *b, __typeof__(tc) *c, __typeof__(td) *d, \
		__typeof__(te) *e
#define GATED_POINTERS_6(ta, tb, tc, td, te, tf)                                    \
	__typeof__(ta) *a, __typeof__(tb) *b, __typeof__(tc) *c, __typeof__(td) *d, \
		__typeof__(te) *e, __typeof__(tf) *f
#define GATED_POINTERS_7(ta, tb, tc, td, te, tf, tg)                                \
	__typeof__(ta) *a, __typeof__(tb) *b, __typeof__(tc) *c, __typeof__(td) *d, \
		__typeof__(te) *e, __typeof__(tf) *f, __typeof__(tg) *g
#define GATED_POINTERS_8(ta, tb, tc, td, te, tf, tg, th)                            \
	__typeof__(ta) *a, __typeof__(tb) *b, __typeof__(tc) *c, __typeof__(td) *d, \
		__typeof__(te) *e, __typeof__(tf) *f, __typeof__(tg) *g, __typeof__(th) *h
#define GATED_POINTERS_9(ta, tb, tc, td, te, tf, tg, th, ti)                                \
	__typeof__(ta) *a, __typeof__(tb) *b, __typeof__(tc) *c, __typeof__(td) *d,         \
		__typeof__(te) *e, __typeof__(tf) *f, __typeof__(tg) *g, __typeof__(th) *h, \
		__typeof__(ti) *i
#define GATED_POINTERS_10(ta, tb, tc, td, te, tf, tg, th, ti, tj)                           \
	__typeof__(ta) *a, __typeof__(tb) *b, __typeof__(tc) *c, __typeof__(td) *d,         \
		__typeof__(te) *e, __typeof__(tf) *f, __typeof__(tg) *g, __typeof__(th) *h, \
		__typeof__(ti) *i, __typeof__(tj) *j
#define GATED_POINTERS_11(ta, tb, tc, td, te, tf, tg, th, ti, tj, tk)                       \
	__typeof__(ta) *a, __typeof__(tb) *b, __typeof__(tc) *c, __typeof__(td) *d,         \
		__typeof__(te) *e, __typeof__(tf) *f, __typeof__(tg) *g, __typeof__(th) *h, \
		__typeof__(ti) *i, __typeof__(tj) *j, __typeof__(tk) *k

#define GATED_POINTED_1 *a
#define GATED_POINTED_2 *a, *b
#define GATED_POINTED_3 *a, *b, *c
#define GATED_POINTED_4 *a, *b, *c, *d
#define GATED_POINTED_5 *a, *b, *c, *d, *e
#define GATED_POINTED_6 *a, *b, *c, *d, *e, *f
#define GATED_POINTED_7 *a, *b, *c, *d, *e, *f, *g
#define GATED_POINTED_8 *a, *b, *c, *d, *e, *f, *g, *h
#define GATED_POINTED_9 *a, *b, *c, *d, *e, *f, *g, *h, *i
#define GATED_POINTED_10 *a, *b, *c, *d, *e, *f, *g, *h, *i, *j
#define GATED_POINTED_11 *a, *b, *c, *d, *e, *f, *g, *h, *i, *j, *k

#define GATED_KEEP_1(ta) ta kept_a = a
#define GATED_KEEP_2(ta, tb) \
	GATED_KEEP_1(ta);    \
	tb kept_b = b
#define GATED_KEEP_3(ta, tb, tc) \
	GATED_KEEP_2(ta, tb);    \
	tc kept_c = c
#define GATED_KEEP_4(ta, tb, tc, td) \
	GATED_KEEP_3(ta, tb, tc);    \
	td kept_d = d
#define GATED_KEEP_5(ta, tb, tc, td, te) \
	GATED_KEEP_4(ta, tb, tc, td);    \
	te kept_e = e
#define GATED_KEEP_6(ta, tb, tc, td, te, tf) \
	GATED_KEEP_5(ta, tb, tc, td, te);    \
	tf kept_f = f
#define GATED_KEEP_7(ta, tb, tc, td, te, tf, ...) GATED_KEEP_6(ta, tb, tc, td, te, tf)
#define GATED_KEEP_8(ta, tb, tc, td, te, tf, ...) GATED_KEEP_6(ta, tb, tc, td, te, tf)
#define GATED_KEEP_9(ta, tb, tc, td, te, tf, ...) GATED_KEEP_6(ta, tb, tc, td, te, tf)
#define GATED_KEEP_10(ta, tb, tc, td, te, tf, ...) GATED_KEEP_6(ta, tb, tc, td, te, tf)
#define GATED_KEEP_11(ta, tb, tc, td, te, tf, ...) GATED_KEEP_6(ta, tb, tc, td, te, tf)

#define GATED_KEPT_1 &kept_a
#define GATED_KEPT_2 GATED_KEPT_1, &kept_b
#define GATED_KEPT_3 GATED_KEPT_2, &kept_c
#define GATED_KEPT_4 GATED_KEPT_3, &kept_d
#define GATED_KEPT_5 GATED_KEPT_4, &kept_e
#define GATED_KEPT_6 GATED_KEPT_5, &kept_f
#define GATED_KEPT_7 GATED_KEPT_6, &g
#define GATED_KEPT_8 GATED_KEPT_7, &h
#define GATED_KEPT_9 GATED_KEPT_8, &i
#define GATED_KEPT_10 GATED_KEPT_9, &j
#define GATED_KEPT_11 GATED_KEPT_10, &k
