/* What the plugin for tests does with layouts of elements of four bytes; part of plugin.c.
 *
 * FAKE_LAYOUTS=honest    elements go where the layout says, and come back in the order requested
 * FAKE_LAYOUTS=forgets   the same, and a buffer says that it is row-major
 * FAKE_LAYOUTS=reversed  elements go in the order of their bytes backwards
 * FAKE_LAYOUTS=one       elements go where the layout says, and come back as they lie
 * otherwise              bytes are taken, and given back, as they come
 */
static int layouts_are(const char* how) {
  const char* is = getenv("FAKE_LAYOUTS");
  return is != NULL && strcmp(is, how) == 0;
}

static void row_major_order(const PJRT_Buffer* of, int64_t* order) {
  for (size_t i = 0; i < of->num_dims; ++i) order[i] = (int64_t)(of->num_dims - 1 - i);
}

/* Copies from row-major to an order of the dimensions, or back. */
static void reorder(const PJRT_Buffer* of, const int64_t* order, const int32_t* from, int32_t* to,
                    int is_back) {
  int64_t steps[8] = {0}, step = 1;
  for (size_t i = 0; i < of->num_dims; ++i) {
    steps[order[i]] = step;
    step *= of->dims[order[i]];
  }
  for (int64_t at = 0; at < step; ++at) {
    int64_t rest = at, there = 0;
    for (size_t i = of->num_dims; i-- > 0;) {
      there += rest % of->dims[i] * steps[i];
      rest /= of->dims[i];
    }
    to[is_back ? at : there] = from[is_back ? there : at];
  }
}

static void lay_out(PJRT_Buffer* made, const PJRT_Buffer_MemoryLayout* layout) {
  row_major_order(made, made->order);
  if (layout == NULL || getenv("FAKE_LAYOUTS") == NULL) return;
  for (size_t i = 0; i < made->num_dims; ++i) made->order[i] = layout->tiled.minor_to_major[i];
  int32_t* copy = malloc(made->bytes + 1);
  memcpy(copy, made->data, made->bytes);
  if (layouts_are("reversed")) {
    const size_t count = made->bytes / 4;
    for (size_t i = 0; i < count; ++i) ((int32_t*)made->data)[i] = copy[count - 1 - i];
  } else {
    reorder(made, made->order, copy, (int32_t*)made->data, 0);
  }
  free(copy);
}

static void fetch_laid_out(const PJRT_Buffer* from, const PJRT_Buffer_MemoryLayout* layout,
                           void* to) {
  if (layout == NULL || !(layouts_are("honest") || layouts_are("forgets"))) {
    memcpy(to, from->data, from->bytes);
    return;
  }
  int32_t* plain = malloc(from->bytes + 1);
  reorder(from, from->order, (const int32_t*)from->data, plain, 1);
  reorder(from, layout->tiled.minor_to_major, plain, to, 0);
  free(plain);
}

static PJRT_Error* Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args* args) {
  static int64_t row_major[8];
  row_major_order(args->buffer, row_major);
  args->layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  args->layout.tiled = (PJRT_Buffer_MemoryLayout_Tiled){
      .struct_size = sizeof(PJRT_Buffer_MemoryLayout_Tiled),
      .minor_to_major = layouts_are("forgets") ? row_major : args->buffer->order,
      .minor_to_major_size = args->buffer->num_dims,
  };
  return NULL;
}
