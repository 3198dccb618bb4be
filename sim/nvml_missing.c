/* The calls that the software GPU has no behaviour for, without their parameters: none is looked
 * at. */
#include "nvml_missing.h"

#define HAVE(symbol)
#define LACK(symbol)                                                      \
	__attribute__((visibility("default"))) nvmlReturn_t symbol(void); \
	nvmlReturn_t symbol(void)                                         \
	{                                                                 \
		return nvml_missing_answer(#symbol);                      \
	}
#include "nvml_symbols.def"
