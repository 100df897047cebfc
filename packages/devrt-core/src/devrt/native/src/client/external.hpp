// Arrays of other libraries, as a client takes them over.
#pragma once

#include "client/client.hpp"

namespace devrt::native {

/// Whether what another library has may be shared.
enum class Copy { kWhereNeeded, kAlways, kNever };

/// An array of another library, in memory of a device of the client.
struct External {
  HostArray array;     ///< at addresses of the device
  ReadyEvent ready;    ///< of the work that fills it
  ExternalOwner hold;  ///< what keeps it alive
  Copy copy = Copy::kWhereNeeded;
  bool is_described = false;  ///< by numbers alone, which nothing has checked
};

}  // namespace devrt::native
