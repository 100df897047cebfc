/* What the plugin for tests writes and changes; part of plugin.c.
 *
 * FAKE_LOG=lines   writes a line of a log, and half a line, when a client is made
 * FAKE_LOG=change  changes a signal's handler and the environment when it is initialised
 */
static int logs(const char* how) {
  const char* wanted = getenv("FAKE_LOG");
  return wanted != NULL && strcmp(wanted, how) == 0;
}

static void make_noise(void) {
  if (!logs("lines")) return;
  fprintf(stderr, "E1121 17:10:16.657269   12608 fake.cc:9] it is broken\na question? ");
}

static void change_process(void) {
  if (!logs("change")) return;
  setenv("FAKE_WAS_HERE", "yes", 1);
  signal(SIGHUP, SIG_IGN);
}
