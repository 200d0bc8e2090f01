/* Stands in for libcufile.so.0 where devices are simulated: their memory is the host's. It notes what it is asked in the file
   that TM_NOTES names, moves at most 5000 bytes at a time, and refuses memory or moves if TM_REFUSES says so. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

typedef struct {
  int failed, of_driver;
} status;
typedef struct {
  int type;
  union {
    int file;
    void *handle;
  } of;
  const void *operations;
} description;

static const status fine = {0, 0}, wrong = {5001, 0};

static void note(const char *what, size_t count) {
  FILE *const notes = fopen(getenv("TM_NOTES"), "a");
  fprintf(notes, "%s %zu\n", what, count);
  fclose(notes);
}

static int refuses(const char *what) {
  const char *const given = getenv("TM_REFUSES");
  return given != NULL && strcmp(given, what) == 0;
}

int tm_cufile_stands_in(void) { return 1; }

status cuFileDriverOpen(void) { return refuses("start") ? wrong : fine; }

status cuFileHandleRegister(void **handle, description *of) {
  if (of->type != 1 || refuses("open")) return wrong;
  note("open", 1);
  return *handle = (void *)(size_t)(of->of.file + 1), fine;
}

void cuFileHandleDeregister(void *handle) { note("close", handle != NULL); }

status cuFileBufRegister(const void *memory, size_t bytes, int flags) {
  if (memory == NULL || flags != 0) return wrong;
  note("lock", bytes);
  return fine;
}

status cuFileBufDeregister(const void *memory) {
  note("unlock", memory != NULL);
  return fine;
}

/* A function of the simulator, which has the driver's entry points: it alone reaches the memory of its devices. */
static int find(struct dl_phdr_info *of, size_t bytes, void *found) {
  (void)bytes;
  void *const library = dlopen(of->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL || dlsym(library, "tm_simulator_pools") == NULL) return 0;
  *(void **)found = library;
  return 1;
}

static void *entry(const char *name) {
  void *library = NULL;
  dl_iterate_phdr(find, &library);
  return dlsym(library, name);
}

static size_t piece(size_t bytes) { return bytes < 5000 ? bytes : 5000; }
static int plain(void *handle) { /* without O_DIRECT: pieces need not be aligned */
  char name[40];
  snprintf(name, sizeof name, "/proc/self/fd/%d", (int)(size_t)handle - 1);
  return open(name, O_RDWR);
}

ssize_t cuFileRead(void *handle, void *memory, size_t bytes, off_t at, off_t from) {
  if (refuses("move")) return -1;
  int (*const deliver)(uint64_t, const void *, size_t) = (int (*)(uint64_t, const void *, size_t))entry("cuMemcpyHtoD_v2");
  char here[5000];
  const int file = plain(handle);
  const ssize_t done = pread(file, here, piece(bytes), at);
  close(file);
  if (done <= 0 || deliver((uintptr_t)memory + (uint64_t)from, here, (size_t)done) != 0) return -1;
  note("read", (size_t)done);
  return done;
}

ssize_t cuFileWrite(void *handle, const void *memory, size_t bytes, off_t at, off_t from) {
  if (refuses("move")) return -1;
  int (*const fetch)(void *, uint64_t, size_t) = (int (*)(void *, uint64_t, size_t))entry("cuMemcpyDtoH_v2");
  char here[5000];
  if (fetch(here, (uintptr_t)memory + (uint64_t)from, piece(bytes)) != 0) return -1;
  const int file = plain(handle);
  const ssize_t done = pwrite(file, here, piece(bytes), at);
  close(file);
  note("write", (size_t)done);
  return done;
}
