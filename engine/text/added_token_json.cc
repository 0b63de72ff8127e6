// SPDX-License-Identifier: Apache-2.0
#include "engine/text/added_token_json.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/json_settings.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {

absl::StatusOr<AddedToken> ParseAddedToken(const JsonValue& entry) {
  AddedToken token;
  LOWMEM_ASSIGN_OR_RETURN(token.content, GetString(entry, "content"));
  LOWMEM_ASSIGN_OR_RETURN(token.single_word,
                          GetBool(entry, "single_word", false));
  LOWMEM_ASSIGN_OR_RETURN(token.lstrip, GetBool(entry, "lstrip", false));
  LOWMEM_ASSIGN_OR_RETURN(token.rstrip, GetBool(entry, "rstrip", false));
  LOWMEM_ASSIGN_OR_RETURN(token.special, GetBool(entry, "special", false));
  LOWMEM_ASSIGN_OR_RETURN(token.normalized,
                          GetBool(entry, "normalized", !token.special));
  return token;
}

absl::Status AddTokens(std::vector<AddedToken> stated,
                       const Vocabulary& vocabulary, AddedTokens& added) {
  const int64_t num_pieces = vocabulary.num_pieces();
  int64_t next_free = num_pieces;
  for (const AddedToken& token : added.tokens()) {
    next_free = std::max<int64_t>(next_free, int64_t{token.id} + 1);
  }
  for (AddedToken& token : stated) {
    if (token.content.empty()) continue;
    const AddedToken* known = added.Find(token.content);
    const int64_t expected =
        known != nullptr ? known->id
                         : vocabulary.Find(token.content).value_or(next_free);
    if (token.id != expected) {
      return absl::DataLossError(
          absl::StrCat("added token \"", Printable(token.content),
                       "\": id does not follow; ", "expected ", expected,
                       ", got ", token.id));
    }
    const bool is_piece = vocabulary.Has(token.id);
    if (is_piece && vocabulary.Text(token.id) != token.content) {
      return absl::DataLossError(absl::StrCat(
          "added token \"", Printable(token.content), "\": id ", token.id,
          " is that of \"", Printable(vocabulary.Text(token.id)), "\""));
    }
    next_free = std::max<int64_t>(next_free, expected + 1);
    LOWMEM_RETURN_IF_ERROR(added.Add(std::move(token)));
  }
  return absl::OkStatus();
}

}  // namespace lowmem
