#include "words.h"

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "findings.h"

namespace ptx {

namespace {

bool belongs(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.'; }

/* Two colons belong to a modifier, one ends a label. */
size_t end_of(const std::string &text, size_t at) {
  size_t end = at;
  while (end < text.size()) {
    if (belongs(text[end]))
      end++;
    else if (end > at && text.compare(end, 2, "::") == 0)
      end += 2;
    else
      break;
  }
  return end > at ? end : at + 1;
}

size_t end_of_comment(const std::string &text, size_t at) {
  const bool is_line = text[at + 1] == '/';
  const size_t end = text.find(is_line ? "\n" : "*/", at + 2);
  return end == std::string::npos ? text.size() : is_line ? end : end + 2;
}

}  // namespace

std::vector<Word> words_of(const std::string &text) {
  std::vector<Word> words;
  int line = 1;
  for (size_t at = 0; at < text.size() && text[at] != '\0';) {
    size_t end = at + 1;
    const bool is_comment = text[at] == '/' && at + 1 < text.size() && (text[at + 1] == '/' || text[at + 1] == '*');
    if (is_comment) {
      end = end_of_comment(text, at);
    } else if (text[at] == '"') {
      end = text.find('"', at + 1);
      end = end == std::string::npos ? text.size() : end + 1;
    } else if (!isspace((unsigned char)text[at])) {
      end = end_of(text, at);
    }
    if (!is_comment && !isspace((unsigned char)text[at])) words.push_back({text.substr(at, end - at), at, end, line});
    for (; at < end; at++) line += text[at] == '\n';
  }
  words.push_back({"", text.size(), text.size(), line});
  return words;
}

bool is_number(const std::string &word) {
  const size_t first = word[0] == '-' ? 1 : 0;
  return word.size() > first && isdigit((unsigned char)word[first]);
}

bool is_single(const std::string &word) { return word.size() == 10 && word[0] == '0' && (word[1] == 'f' || word[1] == 'F'); }

unsigned long long number_of(const std::string &word) {
  if (!is_number(word)) throw Finding(text("a number is wanted, not %s", word.c_str()));
  const bool negative = word[0] == '-';
  const char *digits = word.c_str() + negative;
  const bool is_float = digits[0] == '0' && digits[1] != '\0' && strchr("fFdD", digits[1]) != nullptr;
  char *end = nullptr;
  const unsigned long long size = is_float ? strtoull(digits + 2, &end, 16) : strtoull(digits, &end, 0);
  if (*end != '\0' && strcmp(end, "U") != 0) throw Finding(text("a number that is not known: %s", word.c_str()));
  return negative ? 0 - size : size;
}

}  // namespace ptx
