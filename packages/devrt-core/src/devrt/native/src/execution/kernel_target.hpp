// What programs name to call a kernel of one's own; `devrt.native.kernel_calls` writes it.
#pragma once

namespace devrt::native {

inline constexpr char kKernelTarget[] = "devrt_kernel";

}  // namespace devrt::native
