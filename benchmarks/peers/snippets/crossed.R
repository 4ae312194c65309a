# Marks of students for lecturers: a mean, and effects of both, by maximum likelihood.

lme4 <- function(train, new) {
  library(lme4)
  fitted <- lmer(y ~ 1 + (1 | s) + (1 | d), train, REML = FALSE)
  predict(fitted, new, allow.new.levels = TRUE)
}
