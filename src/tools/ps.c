#include "tools/ps.h"

#include "base/conf.h"
#include "base/units.h"
#include "tools/option_check.h"
#include "tools/ps_json.h"
#include "tools/region_error.h"
#include "tools/table.h"
#include "tools/tenant_dir.h"
#include "tools/tenant_list.h"
#include "tools/tenant_place.h"
#include "tools/tools_common.h"

#include <argp.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "ps"

enum column { TENANT, DEVICE, LIMIT, USED, FREE, SM, BUSY, HELD, PROCESSES };

enum { KEY_JSON = 'j', KEY_ALL = 'a', PROGRAM_BYTES = 128 };

static struct {
	bool is_json;
	bool has_dead;
} opt;

static const char doc[] =
	"Shows the tenants of this machine that can be seen from here, with the memory each may "
	"use, uses and has left on every device, its limit of GPU time there and how "
	"much it used of the last second, and below each its processes, with how long they were held.";

static const struct argp_option option_table[] = {
	{ "json", KEY_JSON, NULL, 0, "print JSON", 0 },
	{ "all", KEY_ALL, NULL, 0, "also tenants of which no process is left", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case KEY_JSON:
		opt.is_json = true;
		return 0;
	case KEY_ALL:
		opt.has_dead = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is one argument too many; ps takes none", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* What is not for us to see, or not written yet, is passed over. */
static void complain(const char *path, int error)
{
	char printable[1024], text[256];

	if (error == -EACCES || error == -EPERM || error == -ENOENT || error == -ENODATA)
		return;
	/* There what some program left for ever is nobody's tenant. */
	if (error == -ESTALE && !opt.has_dead && !strcmp(path, CONF_DEFAULT_REGION))
		return;
	tools_complain(COMMAND, "%s: %s", tools_printable(path, printable, sizeof(printable)),
		       region_error_text(path, error, text, sizeof(text)));
}

static void put_size(char *cell, uint64_t bytes)
{
	units_format_size(bytes, cell, TABLE_CELL_BYTES);
}

/* "0 GPU-8f6d3c2a": the index in the region, and enough of the UUID to tell it. */
static void put_device(char *cell, const struct view *view, int d)
{
	enum { SHORT_BYTES = 13 };
	char uuid[HAMI_UUID_BYTES];

	tools_printable(view->devices[d].uuid, uuid, sizeof(uuid));
	snprintf(cell, TABLE_CELL_BYTES, "%d %.*s", d, SHORT_BYTES - 1, uuid);
}

/* A limit of GPU time; "off" where its policy or a monitor does not let it hold now. */
static void put_share(char *cell, const struct view *view, unsigned limit_pct)
{
	if (limit_pct == 0)
		snprintf(cell, TABLE_CELL_BYTES, "none");
	else
		snprintf(cell, TABLE_CELL_BYTES, "%u %%%s", limit_pct,
			 view->is_sm_held ? "" : " off");
}

/* Of the last second. */
static void put_busy(char *cell, unsigned permille)
{
	snprintf(cell, TABLE_CELL_BYTES, "%u.%u %%", permille / 10, permille % 10);
}

/* How long threads waited for GPU time, in all. */
static void put_held(char *cell, uint64_t ns)
{
	snprintf(cell, TABLE_CELL_BYTES, "%.1f s", (double)ns / 1e9);
}

static void put_processes(char *cell, const struct view *view)
{
	if (!view_is_alive(view))
		snprintf(cell, TABLE_CELL_BYTES, "ended");
	else
		snprintf(cell, TABLE_CELL_BYTES, "%u%s%s", view->process_count,
			 view->kind == VIEW_OWN ? "" : " unverified",
			 view->suspend_want == RATION_RUN     ? "" :
			 view->suspend_want == RATION_SUSPEND ? " suspended" :
								" suspended deep");
}

static int add_device(struct table *table, const struct tenant_list_entry *entry, int d)
{
	const struct view_device *dev = &entry->view.devices[d];
	struct table_row *row = table_add(table);
	uint64_t free_bytes;

	if (!row)
		return -ENOMEM;
	if (d == 0) {
		tenant_list_name(entry, row->cells[TENANT], TABLE_CELL_BYTES);
		put_processes(row->cells[PROCESSES], &entry->view);
	}
	put_device(row->cells[DEVICE], &entry->view, d);
	if (dev->limit_bytes)
		put_size(row->cells[LIMIT], dev->limit_bytes);
	else
		snprintf(row->cells[LIMIT], TABLE_CELL_BYTES, "none");
	put_size(row->cells[USED], dev->used_bytes);
	if (view_free_bytes(dev, &free_bytes))
		put_size(row->cells[FREE], free_bytes);
	else
		snprintf(row->cells[FREE], TABLE_CELL_BYTES, "-");
	put_share(row->cells[SM], &entry->view, dev->sm_limit_pct);
	if (dev->is_metered)
		put_busy(row->cells[BUSY], dev->busy_permille);
	return 0;
}

/* Limits as they were given, with amounts as people read them: "1 GiB", "0:1 GiB,1:2 GiB". */
static void put_spec(char *cell, enum limits_kind kind, const char *spec)
{
	enum { SHOWN_BYTES = 64 };
	char text[TABLE_CELL_BYTES] = "", amount[32];
	struct limits_item item;
	size_t n = 0;

	while (n < sizeof(text) && limits_next(kind, &spec, LIMITS_ZERO_IS_NONE, &item, NULL) > 0) {
		uint64_t limit = limits_effective(kind, item.amount);

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s%s%s", n ? "," : "",
				      item.who, item.who[0] ? ":" : "",
				      limit ? limits_format(kind, limit, amount, sizeof(amount)) :
					      "none");
	}
	tools_printable(n ? text : "none", cell, SHOWN_BYTES);
}

/* No process has used a device yet: the limits are those that were asked for. */
static int add_idle(struct table *table, const struct tenant_list_entry *entry)
{
	struct table_row *row = table_add(table);

	if (!row)
		return -ENOMEM;
	tenant_list_name(entry, row->cells[TENANT], TABLE_CELL_BYTES);
	snprintf(row->cells[DEVICE], TABLE_CELL_BYTES, "-");
	put_spec(row->cells[LIMIT], LIMITS_MEM, entry->view.mem_spec);
	put_spec(row->cells[SM], LIMITS_SM, entry->view.sm_spec);
	put_processes(row->cells[PROCESSES], &entry->view);
	return 0;
}

/* One row, or one for each device that the process has memory on. */
static int add_process(struct table *table, const struct view *view, const struct view_process *p)
{
	char program[PROGRAM_BYTES], comm[sizeof(p->comm)];
	int shown = 0;

	tools_printable(p->comm, comm, sizeof(comm));
	snprintf(program, sizeof(program), "  %d %s", p->pid, comm);
	for (int d = 0; d < view->device_count || shown == 0; d++) {
		bool is_device = d < view->device_count;
		struct table_row *row;

		if (is_device && p->used_bytes[d] == 0)
			continue;
		row = table_add(table);
		if (!row)
			return -ENOMEM;
		if (shown++ == 0)
			memcpy(row->cells[TENANT], program, sizeof(program));
		if (is_device)
			put_device(row->cells[DEVICE], view, d);
		put_size(row->cells[USED], is_device ? p->used_bytes[d] : 0);
		if (is_device && view->devices[d].is_metered) {
			put_busy(row->cells[BUSY], p->busy_permille[d]);
			put_held(row->cells[HELD], p->held_ns[d]);
		}
	}
	return 0;
}

static int add_tenant(struct table *table, const struct tenant_list_entry *entry)
{
	const struct view *view = &entry->view;
	int rc = view->device_count ? 0 : add_idle(table, entry);

	for (int d = 0; rc == 0 && d < view->device_count; d++)
		rc = add_device(table, entry, d);
	for (unsigned i = 0; rc == 0 && i < view->process_count; i++)
		rc = add_process(table, view, &view->processes[i]);
	return rc;
}

static int print_table(const struct tenant_list *list)
{
	static const char *const titles[] = { "TENANT", "DEVICE", "LIMIT", "USED",     "FREE",
					      "SM",     "BUSY",   "HELD",  "PROCESSES" };
	struct table table = { 0 };
	struct table_row *head;
	int rc = 0;

	if (list->count == 0) {
		puts(geteuid() == 0 ? "no tenants" : "no tenants that you may see");
		return 0;
	}
	head = table_add(&table);
	if (!head)
		return -ENOMEM;
	for (int c = 0; c < TABLE_COLUMNS; c++)
		snprintf(head->cells[c], TABLE_CELL_BYTES, "%s", titles[c]);
	for (size_t i = 0; rc == 0 && i < list->count; i++)
		rc = add_tenant(&table, &list->entries[i]);
	if (rc == 0)
		table_print(&table, stdout);
	table_free(&table);
	return rc;
}

/* What is left of this user's tenants goes, wherever they were. */
static void clean(void)
{
	char dir[TENANT_DIR_BYTES], ignored[4096];

	if (tenant_dir_open(TENANT_DIR_FIND, dir, ignored, sizeof(ignored)) == 0)
		tenant_place_clean(dir);
	if (tenant_dir_last(TENANT_DIR_FIND, dir, ignored, sizeof(ignored)) == 0)
		tenant_place_clean(dir);
}

int ps_main(int argc, char **argv)
{
	static const struct argp argp = { option_table, parse_option, NULL, doc, NULL, NULL, NULL };
	struct tenant_list list;
	int rc;

	tools_begin(COMMAND, argv);
	if (!option_check(COMMAND, argc, argv, option_table, OPTION_END_AT_DASHES))
		return TOOLS_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (!opt.has_dead)
		clean();
	rc = tenant_list_read(opt.has_dead, complain, &list);
	if (rc == 0) {
		rc = opt.is_json ? ps_json_print(&list, stdout) : print_table(&list);
		tenant_list_free(&list);
	}
	if (rc < 0)
		tools_complain(COMMAND, "%s", strerror(-rc));
	return rc < 0 ? TOOLS_UNHEALTHY : TOOLS_OK;
}
