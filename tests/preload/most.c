/* The most that was ever in use of the software GPU's first device: "most BYTES". */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "machine_file.h"

int main(void)
{
	const char *path = getenv("RATION_SIM_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	const struct machine_file *file = mmap(NULL, sizeof(*file), PROT_READ, MAP_SHARED, fd, 0);

	if (file == MAP_FAILED || file->layout != MACHINE_LAYOUT)
		return 1;
	printf("most %llu\n", (unsigned long long)atomic_load(&file->state[0].most_bytes));
	return 0;
}
