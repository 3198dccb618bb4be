/* The second process of the ways that share memory between processes of one tenant. */
#pragma once

/*
 * Starts the process that opens what this one shares. Before the driver is initialised here; the
 * other one initialises its own. Ends with this one.
 */
void matrix_share_fork(void);
