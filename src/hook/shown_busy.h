/*
 * What the schedulers' monitors read of this process's use of the devices (util of the HAMi format):
 * each second anew, so that it is nothing again two seconds after the last work.
 */
#pragma once

/* The worker, as often as it looks. */
void shown_busy_tick(void);
