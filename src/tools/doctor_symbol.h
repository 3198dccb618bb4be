/* A library's own functions, past whatever dlsym() answers: from its symbol table. */
#pragma once

/* The function `name` that the library of `handle` itself defines, or NULL. */
void *doctor_symbol_find(void *handle, const char *name);
