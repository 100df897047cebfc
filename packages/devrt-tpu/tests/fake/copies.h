/* Buffers that are made of others: copies, and the same memory as another type. */
static int transfers;

static PJRT_Buffer* remade(const PJRT_Buffer* source, char* data) {
  PJRT_Buffer* made = malloc(sizeof(*made));
  *made = *source;
  made->data = data;
  made->is_deleted = 0;
  __atomic_add_fetch(&live_buffers, 1, __ATOMIC_SEQ_CST);
  return made;
}

static PJRT_Error* Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args* args) {
  char* data = malloc(args->buffer->bytes + 1);
  memcpy(data, args->buffer->data, args->buffer->bytes);
  args->dst_buffer = remade(args->buffer, data);
  return NULL;
}

/* It takes the memory over, as the C API says. */
static PJRT_Error* Buffer_Bitcast(PJRT_Buffer_Bitcast_Args* args) {
  BEGIN(Buffer_Bitcast);
  PJRT_Buffer* made = remade(args->buffer, args->buffer->data);
  args->buffer->data = NULL;
  args->buffer->is_deleted = 1;
  made->type = args->element_type;
  made->num_dims = args->num_dims;
  memcpy(made->dims, args->dims, args->num_dims * sizeof(*args->dims));
  for (size_t i = 0; i < args->num_dims; ++i) made->order[i] = (int64_t)(args->num_dims - 1 - i);
  args->out_buffer = made;
  return NULL;
}

/* How many transfers to the host were begun. */
int fake_transfers(void) { return transfers; }
