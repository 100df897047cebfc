/* The PJRT C API, as one header: everything that a plugin and its caller share.
 *
 * Facts of the ABI (names, order and types of fields, values of enumerators) as of version 0.114;
 * a test compares them with the headers that public wheels ship. Each file reads as plain C
 * declarations once its preprocessor lines are taken out, in the order of the list below, so that
 * tools without a preprocessor can read them too.
 *
 * In every structure `struct_size` is the offset of its last field plus that field's size, and
 * memory is its maker's: what a plugin returns is freed by the function that frees it, never by
 * the caller's allocator. Fields are only ever added at the end.
 */
#ifndef DEVRT_PJRT_PJRT_C_API_H_
#define DEVRT_PJRT_PJRT_C_API_H_

#ifdef __cplusplus
extern "C" {
#endif

/* Each needs those before it. */
/* clang-format off */
#include "devrt/pjrt/c_api/base.h"
#include "devrt/pjrt/c_api/types.h"
#include "devrt/pjrt/c_api/client.h"
#include "devrt/pjrt/c_api/transfer.h"
#include "devrt/pjrt/c_api/device.h"
#include "devrt/pjrt/c_api/buffer.h"
#include "devrt/pjrt/c_api/executable.h"
#include "devrt/pjrt/c_api/topology.h"
#include "devrt/pjrt/c_api/api.h"
#include "devrt/pjrt/c_api/extensions.h"
#include "devrt/pjrt/c_api/ffi.h"
/* clang-format on */

#ifdef __cplusplus
}
#endif

#endif /* DEVRT_PJRT_PJRT_C_API_H_ */
