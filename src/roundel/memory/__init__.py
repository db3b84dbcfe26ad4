"""What agents remember, by groups: working memory, long-term memory, and memories that graphs
declare."""
