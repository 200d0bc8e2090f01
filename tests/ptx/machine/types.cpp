#include "types.h"

#include <unordered_map>

namespace ptx {

Type type_named(const std::string &name) {
  static const std::unordered_map<std::string, Type> names = {
      {"pred", Type::pred}, {"b8", Type::b8},     {"b16", Type::b16},   {"b32", Type::b32},     {"b64", Type::b64},
      {"u8", Type::u8},     {"u16", Type::u16},   {"u32", Type::u32},   {"u64", Type::u64},     {"s8", Type::s8},
      {"s16", Type::s16},   {"s32", Type::s32},   {"s64", Type::s64},   {"f16", Type::f16},     {"bf16", Type::bf16},
      {"f32", Type::f32},   {"f64", Type::f64},   {"f16x2", Type::f16x2}, {"bf16x2", Type::bf16x2}};
  const auto found = names.find(name);
  return found == names.end() ? Type::none : found->second;
}

int size_of(Type type) {
  switch (type) {
    case Type::pred: case Type::b8: case Type::u8: case Type::s8: return 1;
    case Type::b16: case Type::u16: case Type::s16: case Type::f16: case Type::bf16: return 2;
    case Type::b32: case Type::u32: case Type::s32: case Type::f32: case Type::f16x2: case Type::bf16x2: return 4;
    case Type::b64: case Type::u64: case Type::s64: case Type::f64: return 8;
    default: return 0;
  }
}

bool is_signed(Type type) { return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64; }

bool is_float(Type type) { return type >= Type::f16; }

s64 extended(u64 bits, Type type) {
  switch (size_of(type)) {
    case 1: return is_signed(type) ? s64(s8(bits)) : s64(u8(bits));
    case 2: return is_signed(type) ? s64(s16(bits)) : s64(u16(bits));
    case 4: return is_signed(type) ? s64(s32(bits)) : s64(u32(bits));
    default: return s64(bits);
  }
}

}  // namespace ptx
