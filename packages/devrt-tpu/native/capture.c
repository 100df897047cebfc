/* Standard error while a plugin is called: its log lines are kept, all else goes on at once.
 *
 * The pipe and its reader stay a moment after a capture: the next one takes them over, which costs
 * a tenth of new ones, and after that they are given back. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

enum { kLine = 4096, kMost = 1 << 20, kSignals = 5, kPromptMs = 20, kLingerMs = 100 };

static const char kNotice[] = "WARNING: All log messages before absl::InitializeLog()";

typedef struct capture {
  int source;      /* the pipe's ends */
  atomic_int sink; /* negative: closed */
  int forks;
  pthread_mutex_t lock; /* of all that follows */
  int terminal;
  int is_ended;
  char line[kLine]; /* what has come of a line */
  size_t used;
  char* text; /* the log lines so far */
  size_t size;
  size_t room;
} capture;

/* One that has ended and whose reader waits for the next. The child of a fork leaves it alone. */
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static capture* idle;

/* What a process that dies must still show, and the handlers that were there before. */
static capture* _Atomic current;
static const int kFatal[kSignals] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction before[kSignals];

static void write_all(int file, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t count = write(file, data, size);
    if (count < 0 && errno != EINTR) return;
    if (count > 0) data += count, size -= (size_t)count;
  }
}

/* Keeps the reader from what it holds; not for ever, as the thread that dies may hold the lock. */
static int lock_soon(capture* of) {
  const struct timespec pause = {.tv_nsec = 1000000};
  for (int i = 0; i < 100; ++i) {
    if (pthread_mutex_trylock(&of->lock) == 0) return 1;
    nanosleep(&pause, NULL);
  }
  return 0;
}

/* Puts everything on the terminal, and lets the signal do what it did before. */
static void on_fatal(int number) {
  const int kept = errno;
  capture* dying = atomic_exchange(&current, NULL);
  if (dying != NULL) {
    char rest[512];
    ssize_t count;
    const int is_mine = lock_soon(dying);
    write_all(dying->terminal, dying->text, dying->size);
    write_all(dying->terminal, dying->line, dying->used);
    while ((count = read(dying->source, rest, sizeof(rest))) > 0) {
      write_all(dying->terminal, rest, (size_t)count);
    }
    dup2(dying->terminal, STDERR_FILENO);
    dying->size = dying->used = 0;
    dying->is_ended = 1;
    if (is_mine) pthread_mutex_unlock(&dying->lock);
  }
  for (int i = 0; i < kSignals; ++i) {
    if (kFatal[i] == number) sigaction(number, &before[i], NULL);
  }
  errno = kept;
  raise(number);
}

static void watch_fatal(void) {
  struct sigaction mine = {.sa_handler = on_fatal, .sa_flags = SA_ONSTACK};
  for (int i = 0; i < kSignals; ++i) sigaction(kFatal[i], &mine, &before[i]);
}

/* Handlers that the plugin has installed meanwhile stay. */
static void unwatch_fatal(void) {
  for (int i = 0; i < kSignals; ++i) {
    struct sigaction now;
    sigaction(kFatal[i], &before[i], &now);
    if (now.sa_handler != on_fatal) sigaction(kFatal[i], &now, NULL);
  }
}

/* "I1121 17:10:10.258253 ...", or "2026-11-21 17:10:10.258253: I ...", or absl's notice. */
static int is_log(const char* line, size_t size) {
  const size_t notice = size < sizeof(kNotice) - 1 ? size : sizeof(kNotice) - 1;
  if (size > 8 && memcmp(line, kNotice, notice) == 0) return 1;
  if (size > 20 && memcmp(line, "20", 2) == 0 && line[4] == '-' && line[10] == ' ') {
    const char* colon = memchr(line + 19, ':', size - 19);
    return colon != NULL && colon + 2 < line + size && strchr("IWEF", colon[2]) != NULL;
  }
  if (size < 6 || strchr("IWEF", line[0]) == NULL || line[5] != ' ') return 0;
  for (int i = 1; i < 5; ++i) {
    if (!isdigit((unsigned char)line[i])) return 0;
  }
  return 1;
}

static void keep(capture* of, const char* line, size_t size) {
  if (of->size + size > kMost) return; /* the first lines tell most */
  if (of->size + size > of->room) {
    const size_t room = 2 * (of->size + size);
    char* grown = realloc(of->text, room);
    if (grown == NULL) return;
    of->text = grown;
    of->room = room;
  }
  memcpy(of->text + of->size, line, size);
  of->size += size;
}

static void take_line(capture* of, const char* line, size_t size) {
  if (!of->is_ended && is_log(line, size)) {
    keep(of, line, size);
  } else {
    write_all(of->terminal, line, size);
  }
}

static void take_rest(capture* of) {
  if (of->used > 0) take_line(of, of->line, of->used);
  of->used = 0;
}

/* Takes what is in the pipe without waiting; returns whether more may come. The lock is held. */
static int drain(capture* of) {
  for (;;) {
    const ssize_t count = read(of->source, of->line + of->used, kLine - of->used);
    if (count == 0) return 0;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN;
    of->used += (size_t)count;
    char *from = of->line, *end;
    while ((end = memchr(from, '\n', of->used)) != NULL) {
      const size_t size = (size_t)(end + 1 - from);
      take_line(of, from, size);
      from += size;
      of->used -= size;
    }
    memmove(of->line, from, of->used);
    if (of->used == kLine) take_rest(of);
  }
}

static void drop(capture* of) {
  close(of->source);
  close(of->terminal);
  pthread_mutex_destroy(&of->lock);
  free(of->text);
  free(of);
}

/* Closes the end of a capture that nobody has taken over; returns whether it is closed. */
static int stop_lingering(capture* of) {
  pthread_mutex_lock(&idle_lock);
  if (idle == of) {
    idle = NULL;
    close(atomic_exchange(&of->sink, -1));
  }
  pthread_mutex_unlock(&idle_lock);
  return atomic_load(&of->sink) < 0;
}

/* Reads until nobody can write any more: a child process may have the pipe for longer than the
 * capture lasts, and must not die of writing to it. */
static void* read_lines(void* arg) {
  capture* of = arg;
  struct pollfd wait = {.fd = of->source, .events = POLLIN};
  int has_half = 0, is_closed = 0;
  for (int is_open = 1; is_open;) {
    const int patience = has_half ? kPromptMs : is_closed ? -1 : kLingerMs;
    const int has_come = poll(&wait, 1, patience) != 0;
    pthread_mutex_lock(&of->lock);
    if (has_come) is_open = drain(of);
    /* Half a line that is no log is somebody's prompt. */
    if (!has_come && !is_log(of->line, of->used)) take_rest(of);
    has_half = of->used > 0;
    pthread_mutex_unlock(&of->lock);
    if (!has_come && patience == kLingerMs) is_closed = stop_lingering(of);
  }
  take_rest(of);
  drop(of);
  return NULL;
}

static int start(capture* of) {
  pthread_t reader;
  sigset_t all, former;
  sigfillset(&all); /* signals are for the program's own threads */
  pthread_sigmask(SIG_SETMASK, &all, &former);
  const int failed = pthread_create(&reader, NULL, read_lines, of);
  pthread_sigmask(SIG_SETMASK, &former, NULL);
  if (failed) return 0;
  pthread_detach(reader);
  return 1;
}

/* Returns the idle capture, if there is one of this process, for a terminal. */
static capture* take_over(int terminal) {
  if (pthread_mutex_trylock(&idle_lock) != 0) return NULL; /* perhaps for good, after a fork */
  capture* found = idle;
  if (found != NULL && found->forks == devrt_forks()) {
    idle = NULL;
  } else {
    found = NULL;
  }
  pthread_mutex_unlock(&idle_lock);
  if (found == NULL) return NULL;
  pthread_mutex_lock(&found->lock);
  close(found->terminal);
  found->terminal = terminal;
  found->is_ended = 0;
  pthread_mutex_unlock(&found->lock);
  return found;
}

static capture* make_capture(int terminal) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
    return NULL;
  }
  capture* made = calloc(1, sizeof(*made));
  if (made != NULL) {
    made->source = ends[0];
    atomic_init(&made->sink, ends[1]);
    made->forks = devrt_forks();
    made->terminal = terminal;
    pthread_mutex_init(&made->lock, NULL);
    if (start(made)) return made;
    free(made);
  }
  close(ends[0]);
  close(ends[1]);
  return NULL;
}

void* devrt_capture_begin(void) {
  const int terminal = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  if (terminal < 0) return NULL; /* standard error is closed: there is nothing to keep clean */
  capture* made = take_over(terminal);
  if (made == NULL) made = make_capture(terminal);
  if (made == NULL) {
    close(terminal);
    return NULL;
  }
  atomic_store(&current, made);
  watch_fatal();
  dup2(atomic_load(&made->sink), STDERR_FILENO);
  return made;
}

/* In the child of a fork: the parent's reader waits for all that can write. */
void capture_reset(void) {
  pthread_mutex_init(&idle_lock, NULL);
  if (idle == NULL) return;
  close(idle->source);
  close(atomic_load(&idle->sink));
  close(idle->terminal);
  idle = NULL;
}

/* Leaves the pipe to the next capture, or to the reader to close. */
static void linger(capture* of) {
  if (of->forks == devrt_forks() && pthread_mutex_trylock(&idle_lock) == 0) {
    const int is_first = idle == NULL;
    if (is_first) idle = of;
    pthread_mutex_unlock(&idle_lock);
    if (is_first) return;
  }
  close(atomic_exchange(&of->sink, -1)); /* the reader ends with the last writer */
}

/* Gives standard error back, and returns the log lines, which the caller frees. */
char* devrt_capture_end(void* captured, size_t* size) {
  capture* of = captured;
  fflush(stderr);
  pthread_mutex_lock(&of->lock);
  drain(of); /* here, as waiting for the reader to be scheduled may take milliseconds */
  take_rest(of);
  of->is_ended = 1;
  atomic_store(&current, NULL);
  unwatch_fatal();
  char* text = of->text;
  *size = of->size;
  of->text = NULL;
  of->size = of->room = 0;
  dup2(of->terminal, STDERR_FILENO);
  pthread_mutex_unlock(&of->lock);
  linger(of);
  return text;
}

void devrt_free(void* memory) { free(memory); }
