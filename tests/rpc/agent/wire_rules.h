// Whether bytes keep the rules of the wire that are stricter than protobuf's, found out with
// libprotobuf alone: canonical varints, no groups, known fields with their wire types and within
// their ranges, no singular field twice, `body` and `data` last.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include <set>
#include <string>

namespace gradwire::rpc::testing {

inline bool KeepsWireRules(const google::protobuf::Descriptor& type, const std::string& bytes) {
  using google::protobuf::FieldDescriptor;
  using google::protobuf::UnknownField;
  google::protobuf::UnknownFieldSet fields;
  std::string again;
  if (!fields.ParseFromString(bytes) || !fields.SerializeToString(&again) || again != bytes) {
    return false;  // or written otherwise than needed, which ours may accept or refuse
  }
  std::set<int> seen;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.type() == UnknownField::TYPE_GROUP) return false;
    const FieldDescriptor* known = type.FindFieldByNumber(field.number());
    if (known == nullptr) continue;
    if (!known->is_repeated() && !seen.insert(field.number()).second) return false;
    UnknownField::Type wanted = UnknownField::TYPE_LENGTH_DELIMITED;
    switch (known->type()) {
      case FieldDescriptor::TYPE_UINT32:
      case FieldDescriptor::TYPE_UINT64:
      case FieldDescriptor::TYPE_BOOL:
        wanted = UnknownField::TYPE_VARINT;
        break;
      case FieldDescriptor::TYPE_FIXED64:
        wanted = UnknownField::TYPE_FIXED64;
        break;
      case FieldDescriptor::TYPE_FIXED32:
        wanted = UnknownField::TYPE_FIXED32;
        break;
      default:
        break;
    }
    if (field.type() != wanted) return false;
    if (known->type() == FieldDescriptor::TYPE_UINT32 && field.varint() > UINT32_MAX) return false;
    if (known->type() == FieldDescriptor::TYPE_MESSAGE &&
        !KeepsWireRules(*known->message_type(), field.length_delimited())) {
      return false;
    }
    if ((known->name() == "body" || known->name() == "data") && i + 1 != fields.field_count()) {
      return false;
    }
  }
  return true;
}

}  // namespace gradwire::rpc::testing
