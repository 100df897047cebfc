/* Calls from a plugin into Python: the key-value store of a cluster. */
#include <time.h>

#include "internal.h"

/* A call that reaches an interpreter which ends would hang or end the process, so from then on none
 * is let through, and those that are inside are waited for. */
static atomic_int is_shut;
static atomic_long inside;
static _Thread_local int depth; /* of such calls on this thread */

int gate_enter(void) {
  atomic_fetch_add(&inside, 1);
  if (!atomic_load(&is_shut)) {
    ++depth;
    return 1;
  }
  atomic_fetch_sub(&inside, 1);
  return 0;
}

int gate_is_inside(void) { return depth > 0; }

int devrt_is_inside(void) { return gate_is_inside(); }

/* The calls that were inside when the process forked are not inside its child. */
void gate_reset(void) { atomic_store(&inside, 0); }

void gate_leave(void) {
  --depth;
  atomic_fetch_sub(&inside, 1);
}

int devrt_gate_shut(int timeout_ms) {
  const struct timespec pause = {.tv_nsec = 1000000L};
  atomic_store(&is_shut, 1);
  while (atomic_load(&inside) > 0 && timeout_ms-- > 0) nanosleep(&pause, NULL);
  return atomic_load(&inside) == 0;
}

char* devrt_bytes(size_t size) {
  char* made = malloc(size + 1);
  if (made != NULL) made[size] = 0;
  return made;
}

static void free_value(char* value) { free(value); }

static PJRT_Error* refuse(PJRT_CallbackError* make, devrt_answer* answer) {
  static const char kEnding[] = "the process's Python interpreter ends";
  PJRT_Error* error = answer->data != NULL
                          ? (*make)((PJRT_Error_Code)answer->code, answer->data, answer->size)
                          : (*make)((PJRT_Error_Code)answer->code, kEnding, sizeof(kEnding) - 1);
  free(answer->data);
  return error;
}

static devrt_answer ask(const devrt_question* question) {
  devrt_answer answer = {.code = PJRT_Error_Code_CANCELLED};
  if (!gate_enter()) return answer;
  devrt_python_ask((devrt_question*)question, &answer);
  gate_leave();
  return answer;
}

/* Asks for a value, which becomes the plugin's. */
static PJRT_Error* fetch(const devrt_question* question, PJRT_CallbackError* make_error,
                         char** value, size_t* size) {
  devrt_answer answer = ask(question);
  if (answer.code != 0) return refuse(make_error, &answer);
  *value = answer.data;
  *size = answer.size;
  return NULL;
}

static PJRT_Error* get(PJRT_KeyValueGetCallback_Args* args) {
  const devrt_question question = {.what = DEVRT_GET,
                                   .store = (intptr_t)args->user_arg,
                                   .key = args->key,
                                   .key_size = args->key_size,
                                   .timeout_ms = args->timeout_in_ms};
  args->value_deleter_callback = free_value;
  return fetch(&question, args->callback_error, &args->value, &args->value_size);
}

static PJRT_Error* try_get(PJRT_KeyValueTryGetCallback_Args* args) {
  const devrt_question question = {.what = DEVRT_TRY_GET,
                                   .store = (intptr_t)args->user_arg,
                                   .key = args->key,
                                   .key_size = args->key_size};
  args->value_deleter_callback = free_value;
  return fetch(&question, args->callback_error, &args->value, &args->value_size);
}

static PJRT_Error* put(PJRT_KeyValuePutCallback_Args* args) {
  const devrt_question question = {.what = DEVRT_PUT,
                                   .store = (intptr_t)args->user_arg,
                                   .key = args->key,
                                   .key_size = args->key_size,
                                   .value = args->value,
                                   .value_size = args->value_size};
  devrt_answer answer = ask(&question);
  return answer.code != 0 ? refuse(args->callback_error, &answer) : NULL;
}

void devrt_set_store(PJRT_Client_Create_Args* args, intptr_t store) {
  args->kv_get_callback = get;
  args->kv_put_callback = put;
  args->kv_try_get_callback = try_get;
  args->kv_get_user_arg = args->kv_put_user_arg = args->kv_try_get_user_arg = (void*)store;
}
