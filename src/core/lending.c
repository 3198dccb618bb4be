#include "core/lending.h"

#include "core/charge.h"
#include "core/lent.h"

#include <errno.h>
#include <stdlib.h>

/* One memory of it. */
struct lending_part {
	struct lending_part *next;
	struct loan *loan;        /* until it is given */
	struct handle_node *node; /* of memory by handle: its use */
	/* of other memory */
	uint64_t addr, bytes;
	struct dev dev;
	bool is_stored;
};

static struct lending_part *add(struct lending *l)
{
	struct lending_part *part = calloc(1, sizeof(*part));

	if (!part)
		return NULL;
	part->loan = lent_prepare();
	if (!part->loan) {
		free(part);
		return NULL;
	}
	part->next = l->parts;
	l->parts = part;
	l->count++;
	return part;
}

static struct lending_part *add_use(struct lending *l)
{
	struct handle_node *node = handle_prepare();
	struct lending_part *part = node ? add(l) : NULL;

	if (!part)
		handle_discard(node);
	else
		part->node = node;
	return part;
}

int lending_begin_handle(struct lending *l, uint64_t handle)
{
	struct lending_part *part = add_use(l);

	if (!part)
		return -ENOMEM;
	handle_use(part->node, handle);
	return 0;
}

int lending_begin_range(struct lending *l, uint64_t addr, uint64_t bytes)
{
	const uint64_t end = addr + bytes;

	do {
		struct lending_part *part = add_use(l);

		if (!part)
			return -ENOMEM;
		addr = handle_use_next(part->node, addr, end - addr);
	} while (addr && addr < end);
	return addr || l->count > 1 ? 0 : -ENOENT;
}

int lending_begin_address(struct lending *l, uint64_t addr, struct dev dev, uint64_t bytes,
			  bool is_stored)
{
	struct lending_part *part = add(l);

	if (!part)
		return -ENOMEM;
	part->addr = addr;
	part->dev = dev;
	part->bytes = bytes;
	part->is_stored = is_stored;
	return 0;
}

/* False where it is not memory that this process is charged for. */
static bool enter(const struct lending_part *part, uint64_t number, struct lent *out)
{
	if (part->node)
		/* One that found nothing mapped has none. */
		return handle_lend(part->node, part->loan, number, out);
	if (!track_lend(part->addr, part->loan, out))
		lent_enter(part->loan, part->is_stored ? lent_stored(part->addr) : part->addr,
			   part->dev, part->bytes, 0, out);
	return true;
}

/* Several have one number together, beside that which each may have. */
void lending_given(struct lending *l, int fd)
{
	uint64_t number = l->count > 1 ? lent_number() : 0;
	struct lent all = { .bytes = 0 }, one;

	for (struct lending_part *part = l->parts; part; part = part->next) {
		if (!enter(part, number, &one))
			continue;
		part->loan = NULL;
		one.bytes += all.bytes;
		all = one;
	}
	if (all.bytes)
		lent_mark(fd, &all);
}

void lending_named(struct lending *l)
{
	for (struct lending_part *part = l->parts; part; part = part->next)
		if (part->node)
			handle_note_export(part->node);
}

void lending_end(struct lending *l)
{
	while (l->parts) {
		struct lending_part *part = l->parts;

		l->parts = part->next;
		lent_discard(part->loan);
		if (part->node)
			charge_freed_handle(handle_unuse(part->node));
		free(part);
	}
}
