/* Addresses of the process without memory behind them. A fork child does not have them. */
#pragma once

#include <stdint.h>

/* `bytes` addresses from a multiple of `align` on. A free `hint` is taken, another one is ignored; 0
 * is none. 0 when so many are not to be had. */
uint64_t cuda_address_reserve(uint64_t bytes, uint64_t align, uint64_t hint);

/* Puts addresses back to what they were before something was mapped there. */
void cuda_address_blank(uint64_t start, uint64_t bytes);

/* Gives them back. */
void cuda_address_free(uint64_t start, uint64_t bytes);
