/* What the plugin for tests does with the key-value store of a cluster; part of plugin.c.
 *
 * FAKE_KV=exchange  put a value from another thread, wait for the next node's, and look for one
 *                   that nobody sets
 * FAKE_KV=missing   wait 20 ms for a value that nobody sets, and fail with that error
 * FAKE_KV=forever   go on asking from a thread until the process ends
 */
static const char kValue[] = {'n', (char)0xff, 0, 'x'};
static int requests, refused_late;

static int64_t option(const PJRT_Client_Create_Args* args, const char* name) {
  for (size_t i = 0; i < args->num_options; ++i) {
    const PJRT_NamedValue* value = &args->create_options[i];
    if (value->name_size == strlen(name) && memcmp(value->name, name, value->name_size) == 0) {
      return value->int64_value;
    }
  }
  return -1;
}

static PJRT_Error* to_error(PJRT_Error_Code code, const char* message, size_t size) {
  PJRT_Error* error = fail(code, "");
  snprintf(error->message, sizeof(error->message), "%.*s", (int)size, message);
  return error;
}

static PJRT_CallbackError make_error = to_error;

static void drop_error(PJRT_Error* error) {
  PJRT_Error_Destroy_Args args = {.error = error};
  if (error != NULL) Error_Destroy(&args);
}

static void* put_value(void* arg) {
  const PJRT_Client_Create_Args* args = arg;
  char key[40];
  snprintf(key, sizeof(key), "node/%d", (int)option(args, "node_id"));
  PJRT_KeyValuePutCallback_Args put = {.key = key,
                                       .key_size = strlen(key),
                                       .value = kValue,
                                       .value_size = sizeof(kValue),
                                       .callback_error = &make_error,
                                       .user_arg = args->kv_put_user_arg};
  return args->kv_put_callback(&put);
}

static PJRT_Error* wait_for(const PJRT_Client_Create_Args* args, const char* key, int timeout) {
  PJRT_KeyValueGetCallback_Args get = {.key = key,
                                       .key_size = strlen(key),
                                       .timeout_in_ms = timeout,
                                       .callback_error = &make_error,
                                       .user_arg = args->kv_get_user_arg};
  PJRT_Error* error = args->kv_get_callback(&get);
  if (error != NULL) return error;
  const int is_same =
      get.value_size == sizeof(kValue) && memcmp(get.value, kValue, sizeof(kValue)) == 0;
  get.value_deleter_callback(get.value);
  return is_same ? NULL : fail(PJRT_Error_Code_DATA_LOSS, "a value that is another one");
}

static PJRT_Error* look_for(PJRT_KeyValueTryGetCallback callback, void* user_arg) {
  PJRT_KeyValueTryGetCallback_Args look = {
      .key = "nobody", .key_size = 6, .callback_error = &make_error, .user_arg = user_arg};
  return callback(&look);
}

static PJRT_KeyValueTryGetCallback forever_callback;

static void* forever(void* user_arg) {
  for (;;) {
    PJRT_Error* error = look_for(forever_callback, user_arg);
    ++requests;
    if (error != NULL && error->code == PJRT_Error_Code_CANCELLED) ++refused_late;
    drop_error(error);
    usleep(200);
  }
  return NULL;
}

static PJRT_Error* exchange(PJRT_Client_Create_Args* args) {
  pthread_t other;
  void* failed = NULL;
  pthread_create(&other, NULL, put_value, args);
  pthread_join(other, &failed);
  if (failed != NULL) return failed;
  char key[40];
  const int64_t next = (option(args, "node_id") + 1) % option(args, "num_nodes");
  snprintf(key, sizeof(key), "node/%d", (int)next);
  PJRT_Error* error = wait_for(args, key, 60000);
  if (error != NULL) return error;
  error = look_for(args->kv_try_get_callback, args->kv_try_get_user_arg);
  if (error == NULL || error->code != PJRT_Error_Code_NOT_FOUND) {
    drop_error(error);
    return fail(PJRT_Error_Code_INTERNAL, "looking for a value that nobody has set");
  }
  drop_error(error);
  return NULL;
}

static PJRT_Error* use_store(PJRT_Client_Create_Args* args) {
  const char* how = getenv("FAKE_KV");
  if (how == NULL) return NULL;
  if (args->kv_get_callback == NULL || args->kv_put_callback == NULL ||
      args->kv_try_get_callback == NULL) {
    return fail(PJRT_Error_Code_FAILED_PRECONDITION, "a client without a store");
  }
  if (strcmp(how, "missing") == 0) return wait_for(args, "nobody", 20);
  if (strcmp(how, "exchange") == 0) return exchange(args);
  pthread_t thread;
  forever_callback = args->kv_try_get_callback;
  pthread_create(&thread, NULL, forever, args->kv_try_get_user_arg);
  pthread_detach(thread);
  return NULL;
}

/* How often the store was queried, and how often it refused as it was closed. */
void fake_store_counts(int* counts) {
  counts[0] = requests;
  counts[1] = refused_late;
}
