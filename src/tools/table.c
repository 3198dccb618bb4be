#include "tools/table.h"

#include <stdlib.h>
#include <string.h>

struct table_row *table_add(struct table *table)
{
	struct table_row *more = realloc(table->rows, (table->count + 1) * sizeof(*more));

	if (!more)
		return NULL;
	table->rows = more;
	more += table->count++;
	memset(more, 0, sizeof(*more));
	return more;
}

void table_print(const struct table *table, FILE *out)
{
	size_t widths[TABLE_COLUMNS] = { 0 };

	for (size_t r = 0; r < table->count; r++) {
		for (int c = 0; c < TABLE_COLUMNS; c++) {
			size_t n = strlen(table->rows[r].cells[c]);

			if (n > widths[c])
				widths[c] = n;
		}
	}
	for (size_t r = 0; r < table->count; r++) {
		char line[TABLE_COLUMNS * (TABLE_CELL_BYTES + 2) + 1];
		size_t n = 0;

		for (int c = 0; c < TABLE_COLUMNS; c++)
			n += (size_t)snprintf(line + n, sizeof(line) - n, "%-*s  ", (int)widths[c],
					      table->rows[r].cells[c]);
		while (n > 0 && line[n - 1] == ' ')
			n--;
		fprintf(out, "%.*s\n", (int)n, line);
	}
}

void table_free(struct table *table)
{
	free(table->rows);
	table->rows = NULL;
	table->count = 0;
}
