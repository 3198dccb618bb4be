#include "tools/ps_json.h"

#include "tools/tools_common.h"

#include <errno.h>
#include <jansson.h>

/* 0 stands for "none" or "not known", which JSON says as null. */
static json_t *number_or_null(uint64_t number)
{
	return number ? json_integer((json_int_t)number) : json_null();
}

static json_t *text(const char *from)
{
	char printable[4096];

	return json_string(tools_printable(from, printable, sizeof(printable)));
}

static json_t *text_or_null(const char *from)
{
	return *from ? text(from) : json_null();
}

static const char *policy_name(enum sm_policy policy)
{
	return policy == SM_POLICY_DEFAULT ? "default" :
	       policy == SM_POLICY_DISABLE ? "disable" :
					     "force";
}

static json_t *device(const struct view *view, int index)
{
	const struct view_device *d = &view->devices[index];
	json_t *object = json_object();
	uint64_t free_bytes;

	json_object_set_new(object, "index", json_integer(index));
	json_object_set_new(object, "uuid", text(d->uuid));
	json_object_set_new(object, "limit_bytes", number_or_null(d->limit_bytes));
	json_object_set_new(object, "used_bytes", json_integer((json_int_t)d->used_bytes));
	json_object_set_new(object, "free_bytes",
			    view_free_bytes(d, &free_bytes) ? json_integer((json_int_t)free_bytes) :
							      json_null());
	json_object_set_new(object, "physical_bytes", number_or_null(d->physical_bytes));
	json_object_set_new(object, "sm_limit_pct", number_or_null(d->sm_limit_pct));
	json_object_set_new(object, "sm_limit_in_force",
			    json_boolean(d->sm_limit_pct && view->is_sm_held));
	json_object_set_new(object, "busy_pct",
			    d->is_metered ? json_real(d->busy_permille / 10.0) : json_null());
	return object;
}

static json_t *process(const struct view *view, const struct view_process *p)
{
	json_t *object = json_object(), *devices = json_array();

	for (int d = 0; d < view->device_count; d++) {
		json_t *use = json_object();

		json_object_set_new(use, "index", json_integer(d));
		json_object_set_new(use, "used_bytes", json_integer((json_int_t)p->used_bytes[d]));
		if (view->flags & RATION_FLAG_MOVABLE)
			json_object_set_new(use, "movable_bytes",
					    json_integer((json_int_t)p->card_bytes[d]));
		if (view->devices[d].is_metered) {
			json_object_set_new(use, "busy_pct", json_real(p->busy_permille[d] / 10.0));
			json_object_set_new(use, "held_s", json_real((double)p->held_ns[d] / 1e9));
		}
		json_array_append_new(devices, use);
	}
	json_object_set_new(object, "pid", p->pid > 0 ? json_integer(p->pid) : json_null());
	json_object_set_new(object, "slot", json_integer((json_int_t)p->slot));
	json_object_set_new(object, "command", text_or_null(p->comm));
	if (view->flags & RATION_FLAG_MOVABLE) {
		json_object_set_new(object, "host_bytes", json_integer((json_int_t)p->host_bytes));
		json_object_set_new(object, "moved_bytes",
				    json_integer((json_int_t)p->moved_bytes));
		json_object_set_new(object, "suspended", json_boolean(p->suspended != RATION_RUN));
		json_object_set_new(object, "deep",
				    json_boolean(p->suspended == RATION_SUSPEND_DEEP));
	}
	json_object_set_new(object, "devices", devices);
	return object;
}

static json_t *tenant(const struct tenant_list_entry *entry)
{
	const struct view *v = &entry->view;
	json_t *object = json_object(), *devices = json_array(), *processes = json_array();

	for (int d = 0; d < v->device_count; d++)
		json_array_append_new(devices, device(v, d));
	for (unsigned i = 0; i < v->process_count; i++)
		json_array_append_new(processes, process(v, &v->processes[i]));
	json_object_set_new(object, "name", text_or_null(v->name));
	json_object_set_new(object, "path", text(entry->path));
	json_object_set_new(object, "alive", json_boolean(view_is_alive(v)));
	json_object_set_new(object, "verified", json_boolean(v->kind == VIEW_OWN));
	json_object_set_new(object, "limits", text_or_null(v->mem_spec));
	json_object_set_new(object, "limits_from", text_or_null(v->mem_source));
	json_object_set_new(object, "sm_limits", text_or_null(v->sm_spec));
	json_object_set_new(object, "sm_limits_from", text_or_null(v->sm_source));
	json_object_set_new(object, "sm_policy",
			    v->kind == VIEW_OWN ? json_string(policy_name(v->sm_policy)) :
						  json_null());
	json_object_set_new(object, "movable", json_boolean(v->flags & RATION_FLAG_MOVABLE));
	json_object_set_new(object, "suspended", json_boolean(v->suspend_want != RATION_RUN));
	json_object_set_new(object, "deep", json_boolean(v->suspend_want == RATION_SUSPEND_DEEP));
	json_object_set_new(object, "created_s", number_or_null(v->created_s));
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
	rc = json_dumpf(root, out, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
	json_decref(root);
	fputc('\n', out);
	/* What cannot be written is noticed at exit. */
	return rc < 0 && !ferror(out) ? -ENOMEM : 0;
}
