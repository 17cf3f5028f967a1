// All codecs but libtorch's: include this to send values.
#pragma once

#include "rpc/tensor/codec.h"             // IWYU pragma: export
#include "rpc/tensor/codec_containers.h"  // IWYU pragma: export
#include "rpc/tensor/codec_fields.h"      // IWYU pragma: export
