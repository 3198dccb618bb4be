/*
 * What is true of a device's objects whenever its mutex is given back.
 */
#pragma once

#include "core/bo.h"

/*
 * NULL, or what is wrong first, with the mutex: each object is in the one list that it belongs
 * into; what is used of a place is what its objects have and what is pending, which is
 * no less than what attempts have taken; who has no place has
 * no memory, who has one has enough; who is lost is nowhere; those of a bulk stand side by side.
 * Takes a time that grows with the number of objects.
 */
const char *bo_check(const struct bo_device *device);

/* Logs what bo_check() finds: a device's on_change in debug and sanitized builds. */
void bo_check_log(const struct bo_device *device);
