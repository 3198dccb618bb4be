#include "tools/ps_json.h"

#include "tools/tools_common.h"

#include <errno.h>
#include <jansson.h>

/* 0 stands for "none" or "not known", which JSON says as null. */
static json_t *bytes_or_null(uint64_t bytes)
{
	return bytes ? json_integer((json_int_t)bytes) : json_null();
}

static json_t *text(const char *from)
{
	char printable[4096];

	return json_string(tools_printable(from, printable, sizeof(printable)));
}

static json_t *device(const struct view_device *d, int index)
{
	json_t *object = json_object();
	uint64_t free_bytes;

	json_object_set_new(object, "index", json_integer(index));
	json_object_set_new(object, "uuid", text(d->uuid));
	json_object_set_new(object, "limit_bytes", bytes_or_null(d->limit_bytes));
	json_object_set_new(object, "used_bytes", json_integer((json_int_t)d->used_bytes));
	json_object_set_new(object, "free_bytes",
			    view_free_bytes(d, &free_bytes) ? json_integer((json_int_t)free_bytes) :
							      json_null());
	json_object_set_new(object, "physical_bytes", bytes_or_null(d->physical_bytes));
	return object;
}

static json_t *process(const struct view *view, const struct view_process *p)
{
	json_t *object = json_object(), *devices = json_array();

	for (int d = 0; d < view->device_count; d++) {
		json_t *use = json_object();

		json_object_set_new(use, "index", json_integer(d));
		json_object_set_new(use, "used_bytes", json_integer((json_int_t)p->used_bytes[d]));
		json_array_append_new(devices, use);
	}
	json_object_set_new(object, "pid", p->pid > 0 ? json_integer(p->pid) : json_null());
	json_object_set_new(object, "slot", json_integer((json_int_t)p->slot));
	json_object_set_new(object, "command", p->comm[0] ? text(p->comm) : json_null());
	json_object_set_new(object, "devices", devices);
	return object;
}

static json_t *tenant(const struct tenant_list_entry *entry)
{
	const struct view *v = &entry->view;
	json_t *object = json_object(), *devices = json_array(), *processes = json_array();

	for (int d = 0; d < v->device_count; d++)
		json_array_append_new(devices, device(&v->devices[d], d));
	for (unsigned i = 0; i < v->process_count; i++)
		json_array_append_new(processes, process(v, &v->processes[i]));
	json_object_set_new(object, "name", v->name[0] ? text(v->name) : json_null());
	json_object_set_new(object, "path", text(entry->path));
	json_object_set_new(object, "alive", json_boolean(view_is_alive(v)));
	json_object_set_new(object, "verified", json_boolean(v->kind == VIEW_OWN));
	json_object_set_new(object, "limits", v->mem_spec[0] ? text(v->mem_spec) : json_null());
	json_object_set_new(object, "limits_from",
			    v->mem_source[0] ? text(v->mem_source) : json_null());
	json_object_set_new(object, "created_s", bytes_or_null(v->created_s));
	json_object_set_new(object, "devices", devices);
	json_object_set_new(object, "processes", processes);
	return object;
}

int ps_json_print(const struct tenant_list *list, FILE *out)
{
	json_t *root = json_object(), *tenants = json_array();
	int rc;

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(tenants, tenant(&list->entries[i]));
	json_object_set_new(root, "tenants", tenants);
	rc = json_dumpf(root, out, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	json_decref(root);
	fputc('\n', out);
	/* What cannot be written is noticed at exit. */
	return rc < 0 && !ferror(out) ? -ENOMEM : 0;
}
