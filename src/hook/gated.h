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
 * made of it, and little while nothing but other functions' first launches are watched for. Each function
 * is left by a jump to the next longer way, so that the short ones save no registers for it.
 */
#define WORK(sym, function, call, ...) WORK_OF(sym, true, (void)0, function, call, __VA_ARGS__)

/* As WORK() and GATED_ON(). */
#define WORK_ON(sym, is_right, function, call, ...) \
	WORK_OF(sym, is_right, (void)0, function, call, __VA_ARGS__)

/* As WORK(), with what says which objects it uses, for when that is asked for. */
#define WORK_WITH(sym, uses, function, call, ...) \
	WORK_OF(sym, true, uses, function, call, __VA_ARGS__)

#define WORK_OF(sym, ...) WORK_AS(CUresult hook_##sym, sym, __VA_ARGS__)

#define WORK_AS(head, sym, is_right, uses, function, call, ...)                                \
	__attribute__((noinline)) static CUresult work_##sym(GATED_PARAMS(__VA_ARGS__))        \
	{                                                                                      \
		struct work w;                                                                 \
		CUresult res;                                                                  \
                                                                                               \
		if (!ENTER_HAS(sym))                                                           \
			return enter_missing();                                                \
		if (work_passes(function))                                                     \
			return ROOM_CALL_HERE(0, real.sym(GATED_ARGS(__VA_ARGS__)));           \
		res = work_begin(&w, call);                                                    \
		if (res != CUDA_SUCCESS)                                                       \
			return res;                                                            \
		res = ROOM_CALL_HERE(work_lacks_bytes(&w), real.sym(GATED_ARGS(__VA_ARGS__))); \
		work_end(&w, res);                                                             \
		return res;                                                                    \
	}                                                                                      \
	__attribute__((noinline)) static CUresult like_##sym(GATED_PARAMS(__VA_ARGS__))        \
	{                                                                                      \
		struct work_call what = call;                                                  \
		struct again *like;                                                            \
		int64_t cost_ns;                                                               \
		uint32_t was_in;                                                               \
		CUresult res;                                                                  \
                                                                                               \
		if (real.sym && object_use_is_wanted()) {                                      \
			uses;                                                                  \
			if (uses_sample_is_on()) {                                             \
				res = work_##sym(GATED_ARGS(__VA_ARGS__));                     \
				uses_sample_end();                                             \
				return res;                                                    \
			}                                                                      \
		}                                                                              \
		if (!real.sym || !(like = again_find(&what, &cost_ns)))                        \
			return work_##sym(GATED_ARGS(__VA_ARGS__));                            \
		was_in = gate_enter();                                                         \
		res = real.sym(GATED_ARGS(__VA_ARGS__));                                       \
		gate_leave(was_in);                                                            \
		if (__builtin_expect(res == CUDA_SUCCESS, 1))                                  \
			again_end(like, cost_ns);                                              \
		else                                                                           \
			again_cancel(like, cost_ns);                                           \
		if (__builtin_expect(res == CUDA_ERROR_OUT_OF_MEMORY, 0) &&                    \
		    room_make_here(&(struct room){ 0 }, 0))                                    \
			return work_##sym(GATED_ARGS(__VA_ARGS__));                            \
		return res;                                                                    \
	}                                                                                      \
	__attribute__((noinline)) static CUresult pass_##sym(GATED_PARAMS(__VA_ARGS__))        \
	{                                                                                      \
		uint32_t was_in;                                                               \
		CUresult res;                                                                  \
                                                                                               \
		if (__builtin_expect(!real.sym || !gate_try(&was_in), 0))                      \
			return like_##sym(GATED_ARGS(__VA_ARGS__));                            \
		res = real.sym(GATED_ARGS(__VA_ARGS__));                                       \
		gate_leave_try(was_in);                                                        \
		if (__builtin_expect(res == CUDA_ERROR_OUT_OF_MEMORY, 0) &&                    \
		    room_make_here(&(struct room){ 0 }, 0))                                    \
			return work_##sym(GATED_ARGS(__VA_ARGS__));                            \
		return res;                                                                    \
	}                                                                                      \
	head(GATED_PARAMS(__VA_ARGS__))                                                        \
	{                                                                                      \
		if (!(is_right))                                                               \
			return CUDA_ERROR_INVALID_VALUE;                                       \
		if (__builtin_expect(!gate_is_open(), 0))                                      \
			return like_##sym(GATED_ARGS(__VA_ARGS__));                            \
		return pass_##sym(GATED_ARGS(__VA_ARGS__));                                    \
	}

/* True when all that is watched for are first launches, and this is none. */
static inline bool work_passes(const void *function)
{
	return gate_is_watched() && !metering_is_on() && function_is_settled(function);
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
