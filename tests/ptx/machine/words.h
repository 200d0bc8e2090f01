/* The text of PTX as words: each with its place, without comments. */
#pragma once
#include <string>
#include <vector>

namespace ptx {

/* A name, a directive, a number or an opcode with its modifiers; a text in quotes; or a single sign. Empty at the end. */
struct Word {
  std::string text;
  size_t start = 0, end = 0; /* in the whole text */
  int line = 1;

  bool is(const char *other) const { return text == other; }
  bool is_end() const { return text.empty(); }
};

std::vector<Word> words_of(const std::string &text);

/* Whether a word is a number, with or without a sign; and its bits. `0f...` and `0d...` are the bits of floats. */
bool is_number(const std::string &word);
bool is_single(const std::string &word);
unsigned long long number_of(const std::string &word);

}  // namespace ptx
