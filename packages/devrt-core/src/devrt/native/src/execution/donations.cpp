#include "execution/donations.hpp"

#include <string>
#include <utility>

namespace devrt::native {

namespace {

void check_given_once(const pjrt::Signature& signature, std::span<Buffer* const> shard,
                      std::size_t donated) {
  for (std::size_t i = 0; i < shard.size(); ++i) {
    if (i == donated || shard[i] != shard[donated]) continue;
    raise_invalid("execute failed: argument " + std::to_string(donated) + " of program '" +
                      signature.name + "' is donated, and given again as argument " +
                      std::to_string(i) + ". Give a copy for one of them.",
                  "execute");
  }
}

}  // namespace

Donations::~Donations() {
  for (Claim& claim : claims_) {
    if (!claim.contents.storage) continue;
    if (is_taken(claim)) {
      view_of(claim)->set_donated();
    } else {
      claim.buffer->put_back(std::move(claim.contents));
    }
  }
}

std::vector<std::int64_t> Donations::claim_all(const pjrt::Signature& signature,
                                               std::span<const std::span<Buffer* const>> arguments,
                                               std::span<Shard> shards) {
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < signature.parameters.size(); ++i) {
    if (!signature.parameters[i].is_donated) continue;
    bool is_seen = false;
    for (std::size_t d = 0; d < arguments.size(); ++d) {
      check_given_once(signature, arguments[d], i);
      const bool is_must = signature.parameters[i].is_must;
      is_seen = !claim(shards[d], i, *arguments[d][i], is_must) || is_seen;
    }
    if (is_seen) kept.push_back(static_cast<std::int64_t>(i));
  }
  return kept;
}

bool Donations::claim(Shard& shard, std::size_t i, Buffer& buffer, bool is_must) {
  claims_.push_back({Ref<Buffer>::share_of(&buffer), buffer.take(), &shard, i});
  Buffer::Contents& contents = claims_.back().contents;
  if (!contents.storage) (void)buffer.memory()->client().storage_of(buffer, "execute");  // throws
  if (!(*shard.views)[i]->is_view()) {
    if (contents.storage->is_sole_share()) return true;
    return keep(shard, i, buffer, contents, is_must);
  }
  // The engine takes no memory of a view. It is released with the last work that reads it, unless
  // some is under way.
  contents.attachment.reset();
  (*shard.views)[i].reset();
  Ref<pjrt::Buffer> given = engine_.give(buffer, contents.storage);
  if (given) {
    shard.set_view(i, std::move(given));
    return true;
  }
  shard.set_view(i, engine_.make_view(buffer, contents.storage.share()));
  return keep(shard, i, buffer, contents, is_must);
}

void Donations::commit() noexcept {
  for (Claim& claim : claims_) {
    if (!claim.shard->has_ended) view_of(claim)->set_donated();
    claim.contents = {};
  }
}

bool Donations::keep(Shard& shard, std::size_t i, const Buffer& buffer,
                     const Buffer::Contents& contents, bool is_must) {
  if (!holds_storages()) return false;
  shard.storages.push_back(contents.storage.share());
  if (!is_must) return false;
  shard.set_view(i, engine_.give_copy(buffer, contents.storage));
  copied_.add(buffer.memory()->budget().get(), contents.storage->bytes());
  return true;
}

bool Donations::is_taken(const Claim& claim) noexcept {
  const Ref<pjrt::Buffer>& view = view_of(claim);
  return view && !view->is_view() && view->is_deleted();
}

}  // namespace devrt::native
