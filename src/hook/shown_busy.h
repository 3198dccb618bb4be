/*
 * How busy this process keeps each device, for the schedulers' monitors (util of HAMi's layout):
 * each second anew, so that it is nothing again two seconds after the last work.
 */
#pragma once

/* The worker, as often as it looks. */
void shown_busy_tick(void);
