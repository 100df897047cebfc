/* The version of what a native module and the installed devrt-core share at run time.
 *
 * It grows whenever a module built with older headers would no longer work with this core: the
 * layout of a C struct or capsule, or how `devrt.errors.from_status` is called.
 */
#ifndef DEVRT_ABI_H_
#define DEVRT_ABI_H_

#define DEVRT_NATIVE_ABI 1

#endif /* DEVRT_ABI_H_ */
