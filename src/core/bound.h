/*
 * Memory that was bound to a multicast object. The driver may hold it for that when its handles and
 * its mappings are gone, until it is unbound or the object goes, and no call tells which. So from
 * the first binding on what ends by handle stays charged until a look at the card has said what is
 * held (charge_keep()).
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include <stdbool.h>

/* This process is about to bind memory. Its fork children have bound none. */
void bound_note(void);

/* Whether it ever was. */
bool bound_any(void);
