/* DLPack tensors that hold a share of a buffer. Source: dlpack.h of the DLPack project. */
#include <Python.h>

#include "internal.h"

typedef devrt_dlpack_view tensor;

typedef struct managed {
  tensor tensor;
  void* context;
  void (*deleter)(struct managed* self);
} managed;

typedef struct managed_versioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(struct managed_versioned* self);
  uint64_t flags;
  tensor tensor;
} managed_versioned;

/* One allocation: what is managed, the handle that it holds, its shape and its strides. */
typedef struct exported {
  union {
    managed plain;
    managed_versioned versioned;
  } as;
  uintptr_t held;
  int64_t sizes[];
} exported;

static void delete_plain(managed* self) {
  devrt_release(((exported*)self->context)->held);
  free(self->context);
}

static void delete_versioned(managed_versioned* self) {
  devrt_release(((exported*)self->context)->held);
  free(self->context);
}

static void fill(tensor* to, exported* from, void* data, int device_type, int device_id,
                 const int64_t* dims, int num_dims, int code, int bits) {
  int64_t step = 1;
  for (int i = num_dims - 1; i >= 0; --i) {
    from->sizes[i] = dims[i];
    from->sizes[num_dims + i] = step;
    step *= dims[i];
  }
  *to = (tensor){.data = data,
                 .device_type = device_type,
                 .device_id = device_id,
                 .ndim = num_dims,
                 .code = (uint8_t)code,
                 .bits = (uint8_t)bits,
                 .lanes = 1,
                 .shape = from->sizes,
                 .strides = from->sizes + num_dims};
}

void* devrt_dlpack_make(uintptr_t held, void* data, int device_type, int device_id,
                        const int64_t* dims, int num_dims, int code, int bits, int versioned,
                        uint64_t flags) {
  exported* made = calloc(1, sizeof(*made) + 2 * (size_t)num_dims * sizeof(int64_t));
  if (made == NULL) return NULL;
  made->held = held;
  if (versioned) {
    managed_versioned* as = &made->as.versioned;
    as->major = 1;
    as->context = made;
    as->deleter = delete_versioned;
    as->flags = flags;
    fill(&as->tensor, made, data, device_type, device_id, dims, num_dims, code, bits);
  } else {
    managed* as = &made->as.plain;
    as->context = made;
    as->deleter = delete_plain;
    fill(&as->tensor, made, data, device_type, device_id, dims, num_dims, code, bits);
  }
  return &made->as;
}

void devrt_dlpack_free(void* of, int versioned) {
  if (versioned) {
    managed_versioned* as = of;
    if (as->deleter != NULL) as->deleter(as);
  } else {
    managed* as = of;
    if (as->deleter != NULL) as->deleter(as);
  }
}

void* devrt_dlpack_tensor(void* of, int versioned) {
  return versioned ? &((managed_versioned*)of)->tensor : &((managed*)of)->tensor;
}

/* Frees what nobody consumed: a consumer renames the capsule. */
static void destroy_capsule(PyObject* capsule, const char* name, int versioned) {
  if (PyCapsule_IsValid(capsule, name)) {
    devrt_dlpack_free(PyCapsule_GetPointer(capsule, name), versioned);
  }
}

static void destroy_plain(PyObject* capsule) { destroy_capsule(capsule, "dltensor", 0); }

static void destroy_versioned(PyObject* capsule) {
  destroy_capsule(capsule, "dltensor_versioned", 1);
}

void* devrt_dlpack_destructor(int versioned) {
  void (*destructor)(PyObject*) = versioned ? destroy_versioned : destroy_plain;
  void* address;
  memcpy(&address, &destructor, sizeof(address));
  return address;
}
