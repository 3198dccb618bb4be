#include "core/lent.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/quota.h"
#include "shm/exported.h"
#include "shm/region.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Memory, by one of the numbers that its descriptors have. */
struct loan {
	struct hash_link link; /* while its life goes on; the first of its key */
	struct loan *more;     /* the same memory by another number */
	struct loan *next;     /* after its life */
	struct dev dev;
	uint64_t bytes, number;
	bool is_own; /* the number is of no other memory */
};

struct lent_state {
	uint64_t owner; /* constant after lent_init() */
	/*
	 * Who claims looks at the locks with it, and others who end something wait for what he
	 * finds: some of it may be theirs. Before `mutex` and the quota's.
	 */
	pthread_mutex_t claims;
	_Atomic bool is_claiming; /* written under claims; before is_fresh becomes false */
	pthread_mutex_t mutex;    /* orders the rest; never held across a look at the locks */
	struct hash loans;
	struct loan *fresh, *held;
	uint64_t last_number;
	_Atomic bool is_used;                        /* something was ever entered */
	_Atomic bool is_fresh;                       /* written under mutex */
	_Atomic uint64_t held_bytes[RATION_DEVICES]; /* likewise */
	_Atomic bool is_blind;                       /* a descriptor has no mark that is seen */
	_Atomic bool is_seen;                        /* a mark was there to be read */
	_Atomic bool has_complained;
};
PROCESS_STATE(lent_state, state);

void lent_init(const struct region *region, unsigned slot)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.owner = exported_owner(&region->own->slots[slot], slot);
	/* A program that became another has its own: descriptors may be left of the former. */
	state.s.last_number = (uint64_t)clock_now_ns();
}

struct loan *lent_prepare(void)
{
	return calloc(1, sizeof(struct loan));
}

void lent_discard(struct loan *loan)
{
	free(loan);
}

/* mutex held. */
static uint64_t next_number(void)
{
	const uint64_t mask = (UINT64_C(1) << EXPORTED_MEMORY_BITS) - 1;

	do
		state.s.last_number = (state.s.last_number + 1) & mask;
	while (state.s.last_number == 0);
	return state.s.last_number;
}

uint64_t lent_number(void)
{
	uint64_t number;

	pthread_mutex_lock(&state.s.mutex);
	number = next_number();
	pthread_mutex_unlock(&state.s.mutex);
	return number;
}

/* mutex held: by the number that is the memory's own; NULL when it has none yet. */
static const struct loan *find_own(const struct loan *first)
{
	while (first && !first->is_own)
		first = first->more;
	return first;
}

/* mutex held. */
static void insert(struct loan *loan, struct loan *first)
{
	if (first) {
		loan->more = first->more;
		first->more = loan;
	} else {
		hash_insert(&state.s.loans, &loan->link);
	}
}

void lent_enter(struct loan *loan, uint64_t key, struct dev dev, uint64_t bytes, uint64_t number,
		struct lent *out)
{
	const struct loan *own;
	struct loan *first;

	pthread_mutex_lock(&state.s.mutex);
	atomic_store(&state.s.is_used, true);
	first = (struct loan *)hash_find(&state.s.loans, key);
	own = number ? NULL : find_own(first);
	*out = (struct lent){ dev, bytes, number };
	if (own) {
		out->number = own->number;
		free(loan);
	} else {
		*loan = (struct loan){ .link.key = key,
				       .dev = dev,
				       .bytes = bytes,
				       .number = number ? number : next_number(),
				       .is_own = number == 0 };
		out->number = loan->number;
		insert(loan, first);
	}
	pthread_mutex_unlock(&state.s.mutex);
}

/* Nobody can say which descriptors are open. */
static void complain(int rc)
{
	if (!atomic_exchange(&state.s.has_complained, true))
		log_warn("descriptors of device memory cannot be followed here (%s): memory that "
			 "has any stays counted when it is freed",
			 strerror(-rc));
}

/* Once: where the list of locks is hidden an empty one may stand in its place. */
static int check_sight(const struct exported *marked)
{
	int rc;

	if (atomic_load_explicit(&state.s.is_seen, memory_order_relaxed))
		return 0;
	rc = exported_shows(state.s.owner, marked);
	if (rc == 0)
		atomic_store(&state.s.is_seen, true);
	/* What fails to be read does not say that nothing is open; look() sees it then. */
	return rc == -ENOLCK ? rc : 0;
}

void lent_mark(int fd, const struct lent *what)
{
	struct exported exported = { .memory = what->number,
				     .bytes = what->bytes,
				     .dev = what->dev.v };
	int rc = exported_mark(fd, state.s.owner, &exported);

	if (rc == 0)
		rc = check_sight(&exported);
	if (rc == 0)
		return;
	atomic_store(&state.s.is_blind, true);
	complain(rc);
}

/* mutex held. */
static void end_life(struct loan *loan)
{
	hash_remove(&state.s.loans, &loan->link);
	loan->next = state.s.fresh;
	state.s.fresh = loan;
	atomic_store(&state.s.is_fresh, true);
}

static bool is_used(void)
{
	return atomic_load_explicit(&state.s.is_used, memory_order_relaxed);
}

void lent_end(uint64_t key)
{
	struct loan *loan;

	if (!is_used())
		return;
	pthread_mutex_lock(&state.s.mutex);
	loan = (struct loan *)hash_find(&state.s.loans, key);
	if (loan)
		end_life(loan);
	pthread_mutex_unlock(&state.s.mutex);
}

static void end_if_over(struct hash_link *link, void *is_over)
{
	if ((*(bool (**)(uint64_t))is_over)(link->key))
		end_life((struct loan *)link);
}

void lent_end_those(bool (*is_over)(uint64_t key))
{
	if (!is_used())
		return;
	pthread_mutex_lock(&state.s.mutex);
	hash_each(&state.s.loans, end_if_over, &is_over);
	pthread_mutex_unlock(&state.s.mutex);
}

/* Addresses and pointers are even. */
#define STORED UINT64_C(1)

uint64_t lent_stored(uint64_t addr)
{
	return addr | STORED;
}

static bool is_stored(uint64_t key)
{
	return key & STORED;
}

void lent_end_stored(void)
{
	lent_end_those(is_stored);
}

bool lent_is_fresh(void)
{
	return atomic_load_explicit(&state.s.is_fresh, memory_order_relaxed);
}

/* Which descriptors are open; where nobody can say it all are taken to be. */
struct open_ones {
	struct exported *all;
	unsigned count;
	bool is_blind;
};

static struct open_ones look(void)
{
	struct open_ones open = { .is_blind = atomic_load(&state.s.is_blind) };
	int rc = open.is_blind ? 0 : exported_read(state.s.owner, &open.all, &open.count);

	open.is_blind |= rc < 0;
	if (exported_is_unreadable(rc))
		complain(rc);
	return open;
}

static bool is_open(const struct open_ones *open, const struct loan *loan)
{
	if (open->is_blind)
		return true;
	for (; loan; loan = loan->more)
		if (exported_has(open->all, open->count, loan->number))
			return true;
	return false;
}

static void end(struct loan *loan)
{
	struct loan *more;

	for (; loan; loan = more) {
		more = loan->more;
		free(loan);
	}
}

/* mutex held: takes those of the device off a list, as a list. */
static struct loan *take(struct loan **link, struct dev dev)
{
	struct loan *taken = NULL;

	while (*link) {
		struct loan *loan = *link;

		if (loan->dev.v != dev.v) {
			link = &loan->next;
			continue;
		}
		*link = loan->next;
		loan->next = taken;
		taken = loan;
	}
	return taken;
}

/*
 * Puts those of a list that are open among the held, and ends the others; `are_new`: they come from
 * the fresh. Returns the bytes of those that are open, or of those that are not.
 */
static uint64_t sort(struct loan *list, bool are_new)
{
	uint64_t open_bytes = 0, ended_bytes = 0;
	struct open_ones open = look();
	struct loan *next;

	pthread_mutex_lock(&state.s.mutex);
	for (; list; list = next) {
		_Atomic uint64_t *held_bytes = &state.s.held_bytes[list->dev.v];

		next = list->next;
		if (is_open(&open, list)) {
			open_bytes += list->bytes;
			atomic_fetch_add(held_bytes, are_new ? list->bytes : 0);
			list->next = state.s.held;
			state.s.held = list;
		} else {
			ended_bytes += list->bytes;
			atomic_fetch_sub(held_bytes, are_new ? 0 : list->bytes);
			end(list);
		}
	}
	pthread_mutex_unlock(&state.s.mutex);
	free(open.all);
	return are_new ? open_bytes : ended_bytes;
}

/* claims held. */
static uint64_t claim(struct dev dev, uint64_t bytes)
{
	uint64_t need_bytes;
	struct loan *list;

	atomic_store(&state.s.is_claiming, true);
	pthread_mutex_lock(&state.s.mutex);
	list = take(&state.s.fresh, dev);
	atomic_store(&state.s.is_fresh, state.s.fresh != NULL);
	pthread_mutex_unlock(&state.s.mutex);
	need_bytes = list ? sort(list, true) : 0;
	if (need_bytes > bytes)
		quota_charge(dev, QUOTA_DATA, need_bytes - bytes);
	atomic_store(&state.s.is_claiming, false);
	return bytes_least(need_bytes, bytes);
}

uint64_t lent_claim(struct dev dev, uint64_t bytes)
{
	int held;

	if (!atomic_load(&state.s.is_fresh) && !atomic_load(&state.s.is_claiming))
		return 0;
	held = sys_cancel_hold();
	pthread_mutex_lock(&state.s.claims);
	bytes = claim(dev, bytes);
	pthread_mutex_unlock(&state.s.claims);
	sys_cancel_release(held);
	return bytes;
}

void lent_claim_all(void)
{
	for (int d = 0; lent_is_fresh() && d < RATION_DEVICES; d++)
		lent_claim((struct dev){ d }, 0);
}

bool lent_any(struct dev dev)
{
	return atomic_load_explicit(&state.s.held_bytes[dev.v], memory_order_relaxed) > 0;
}

uint64_t lent_settle(struct dev dev)
{
	struct loan *list;

	if (!lent_any(dev))
		return 0;
	pthread_mutex_lock(&state.s.mutex);
	list = take(&state.s.held, dev);
	pthread_mutex_unlock(&state.s.mutex);
	return list ? sort(list, false) : 0;
}
