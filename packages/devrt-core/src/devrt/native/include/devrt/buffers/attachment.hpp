// What an engine keeps with a buffer, so that the next call finds it.
#pragma once

#include "devrt/base/ref.hpp"

namespace devrt {

/// Base of an engine's own handle on the memory of a buffer.
class Attachment : public RefCounted<Attachment> {
 public:
  virtual ~Attachment() = default;

 protected:
  Attachment() = default;
};

}  // namespace devrt
