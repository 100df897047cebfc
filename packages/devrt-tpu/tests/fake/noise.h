/* What the plugin for tests writes to standard error when a client is made; part of plugin.c.
 *
 * FAKE_LOG=lines   lines of a log and others
 * FAKE_LOG=long    and as many characters as FAKE_LENGTH has, without a line's end
 * FAKE_LOG=abort   the same, and the process ends
 * FAKE_LOG=child   a child process goes on writing after the call
 * FAKE_LOG=open    a line when the library is opened, and one when its table is asked for
 * FAKE_LOG=change  also changes a signal's handler and the environment (when it is initialised)
 */
static void make_noise(void) {
  const char* how = getenv("FAKE_LOG");
  if (how == NULL || strcmp(how, "open") == 0) return;
  fprintf(stderr, "WARNING: All log messages before absl::InitializeLog() is called are lost\n");
  fprintf(stderr, "I0000 00:00:1795281390.672389   17938 fake.cc:31] looking for devices\n");
  fprintf(stderr, "somebody else's line\n");
  fprintf(stderr, "2026-11-21 17:10:10.258253: W fake/old.cc:7] an old warning\n");
  fprintf(stderr, "E1121 17:10:16.657269   12608 fake.cc:9] it is broken\n");
  fprintf(stderr, "a question? ");
  if (strcmp(how, "long") == 0) {
    for (int i = 0; i < (int)strlen(getenv("FAKE_LENGTH")); ++i) fputc('.', stderr);
  }
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "child") == 0 && fork() == 0) {
    usleep(300000);
    const char late[] = "late line of a child\n";
    if (write(2, late, sizeof(late) - 1) < 0) _exit(1);
    _exit(0);
  }
}

static void log_if_opening(const char* line) {
  const char* how = getenv("FAKE_LOG");
  if (how != NULL && strcmp(how, "open") == 0) fputs(line, stderr);
}

__attribute__((constructor)) static void log_opening(void) {
  log_if_opening("W0000 00:00:1795281390.672389   17938 fake.cc:1] opened\nnot a log line\n");
}

static void change_process(void) {
  const char* how = getenv("FAKE_LOG");
  if (how == NULL || strcmp(how, "change") != 0) return;
  setenv("FAKE_WAS_HERE", "yes", 1);
  signal(SIGHUP, SIG_IGN);
}
