// The byte alphabet of byte-level BPE (GPT-2): vocabulary files spell each byte as one printable character.
//
// Bytes 33..126, 161..172 and 174..255 stand for themselves (as U+0021.. and so on); the other 68, in order, are U+0100..U+0143.
#ifndef TALLY_TEXT_BYTE_MAP_H
#define TALLY_TEXT_BYTE_MAP_H

#include <stdint.h>

#include "base/str.h"

int32_t byte_map_character(unsigned char byte);
int byte_map_byte(int32_t character); // -1: not of the alphabet
// Writes the bytes that valid UTF-8 `spelled` stands for (room for spelled.len needed) and their number; false when a character
// is not of the alphabet.
bool byte_map_decode(str spelled, char *out, size_t *n);

#endif
