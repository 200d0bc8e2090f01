/* What generated host code asks of files: room for arrays, and copies between these and memory, on two queues.

   Stores are carried out in their order by one thread, and loads by another, beside the calling one. A file has no name in
   its folder: it is gone when its call ends, however that ends. Where the folder allows it, the page cache is passed by.
   Every function returns 0 or an error code; tm_file_error() says the last one of this thread in words. */
#ifndef TM_FILE_H
#define TM_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TM_FILE_FOLDER = 121, TM_FILE_ROOM = 122, TM_FILE_FAULT = 123, TM_FILE_FORK = 124, TM_FILE_MEMORY = 125 };
/* The queues. */
enum { TM_FILE_STORES = 0, TM_FILE_LOADS = 1 };

typedef struct tm_file_call tm_file_call;
typedef struct tm_file tm_file;
/* All that was put on a queue before it was recorded; all zeros: nothing. */
typedef struct tm_file_event {
  int queue;
  uint64_t count;
  double due; /* of a simulated disk: when these are complete */
} tm_file_event;

const char *tm_file_error(void);

/* Begins a call of the function `name`, whose files are in `folder`, and tells whether files can be there. */
int tm_file_begin(tm_file_call **call, const char *name, const char *folder);
#ifdef TM_TRACE_H
/* The times of the copies of this call go to `log` when it ends. */
void tm_file_trace(tm_file_call *call, tm_trace *log);
#endif
/* Ends the threads, and releases everything. `code` is what the function is about to return: it is returned, or the error
   that some operation has met. A call of NULL has nothing. */
int tm_file_end(tm_file_call *call, int code);

/* Room for an array of `rows` rows, all zeros at first. */
int tm_file_open(tm_file_call *call, const char *array, size_t rows, size_t row_bytes, tm_file **file);
int tm_file_close(tm_file_call *call, tm_file *file);

/* A box of up to three dimensions: `planes` x `lines` runs of `run` bytes; pitches in bytes. */
typedef struct tm_file_box {
  size_t run, lines, planes;
  size_t target_pitch, target_plane;
  size_t source_pitch, source_plane;
} tm_file_box;

/* How the memory of a device is reached, by way of `memory` of the host: of TM_FILE_CHUNK bytes, at a page, and used by one
   queue alone. `copy` returns 0 once all bytes are there, which its thread calls; `error` has the words of its last failure. */
enum { TM_FILE_CHUNK = 1 << 20 };
typedef struct tm_file_stage {
  void *of, *memory;
  int (*copy)(void *of, void *target, const void *source, size_t bytes, int to_device);
  const char *(*error)(void);
  /* What the device has of a file that passes the page cache, to move bytes without the host; it may have nothing. */
  void (*file)(void *of, int file, void **held);
  bool (*move)(void *of, void *held, void *memory, size_t bytes, size_t place, int stores); /* whether all were */
  void (*release)(void *held);
} tm_file_stage;

/* Puts a copy on a queue, and waits for its end if `wait`. `place` is the first byte in the array that the file holds; with a
   `stage` the other end is in the memory of a device. */
int tm_file_store(tm_file_call *call, const char *what, tm_file *target, size_t place, const void *source,
                  const tm_file_box *box, const tm_file_stage *stage, bool wait);
int tm_file_load(tm_file_call *call, const char *what, void *target, tm_file *source, size_t place,
                 const tm_file_box *box, const tm_file_stage *stage, bool wait);

/* `count` events, released by tm_file_end. */
int tm_file_events(tm_file_call *call, size_t count, tm_file_event **events);
int tm_file_record(tm_file_call *call, int queue, tm_file_event *event);
int tm_file_wait(tm_file_call *call, const tm_file_event *event);

/* -- around calls -- */

/* Whether files can be in a folder: that it is one, can be written, and is on a disk. */
int tm_file_check(const char *folder);
/* A disk for the calls of this thread, in memory: of `write` and `read` bytes a second (0: any number) and a `latency` in
   seconds. Copies happen when they are waited for (a `timing` of 0), at random times (1) or at once (2), or as `seed`
   modulo 3 says (-1); of copy number `fails` (from 1) an error is told. Calls whose folder is NULL use it; `on` false
   takes it away. */
void tm_file_simulate(bool on, uint64_t seed, int timing, double write, double read, double latency, int64_t fails);
/* The copies of this thread's last call, by name, and the bytes that they have stored and loaded: up to `most`. Returns
   how many there are, of which the first 128 are known. */
int tm_file_copies(int most, const char **names, int64_t *stored, int64_t *loaded);

#ifdef __cplusplus
}
#endif
#endif
