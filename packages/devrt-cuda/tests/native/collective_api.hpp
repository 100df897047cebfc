// The functions of the library for collectives that the tests call, as its own header declares
// them.
#pragma once

#include "driver_api.hpp"

using Comm = void*;

extern "C" {
Result ncclCommInitAll(Comm* ranks, int count, const int* devices);
Result ncclCommDestroy(Comm rank);
Result ncclCommAbort(Comm rank);
Result ncclGroupStart();
Result ncclGroupEnd();
Result ncclAllReduce(Pointer from, Pointer to, std::size_t count, int type, int reduction,
                     Comm rank, Stream stream);
Result ncclAllGather(Pointer from, Pointer to, std::size_t count, int type, Comm rank,
                     Stream stream);
Result ncclBroadcast(Pointer from, Pointer to, std::size_t count, int type, int root, Comm rank,
                     Stream stream);
Result ncclSend(Pointer from, std::size_t count, int type, int peer, Comm rank, Stream stream);
Result ncclRecv(Pointer to, std::size_t count, int type, int peer, Comm rank, Stream stream);
}
